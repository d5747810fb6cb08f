"""One version of a model: its folder, checksums, and the loaded servable and
its runtime.
"""
