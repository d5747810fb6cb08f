"""Traffic: default, splits and shadows, and the log of switches."""
