"""Runs work in a bounded number of threads: the queue, deadlines, batches."""
