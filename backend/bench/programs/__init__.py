"""Programs that benchmarks start, each in a process of its own."""
