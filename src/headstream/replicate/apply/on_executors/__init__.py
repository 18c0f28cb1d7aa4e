"""Merges with changes on Spark's executors, where they are divided into buckets of keys and folded or joined to stored rows."""
