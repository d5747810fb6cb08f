"""Measures servers from outside, with load from separate processes."""
