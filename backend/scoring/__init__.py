"""Runs exported versions on photos, to score them, draw the scores and compare two versions."""
