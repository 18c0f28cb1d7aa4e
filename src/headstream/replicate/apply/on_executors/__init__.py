"""Merges changes on Spark's executors: divides the changes into buckets of keys, and folds them or joins them to stored rows."""
