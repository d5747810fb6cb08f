"""One version of a model: its folder, its checksums, and the loaded servable with its labels and runtime."""
