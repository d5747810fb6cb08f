"""Measures servers from outside, each with load from a process of its own. What serves knows nothing of it."""
