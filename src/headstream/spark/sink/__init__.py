"""Writing: the sink, its options, tasks and commits."""
