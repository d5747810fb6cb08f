"""Which version answers which request: defaults, splits, shadows, and the log of their changes."""
