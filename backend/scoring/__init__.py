"""Runs exported versions on photos, to score them and to compare two."""
