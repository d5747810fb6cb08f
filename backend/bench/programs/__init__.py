"""Programs that measurements start, each a process of its own."""
