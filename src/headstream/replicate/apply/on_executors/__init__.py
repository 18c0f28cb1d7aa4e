"""Merges whose changes stay on Spark's executors: split into buckets of keys, folded or joined to stored rows there."""
