"""Writing: the data sink, its options, tasks and commits."""
