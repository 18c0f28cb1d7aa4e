"""Merges changes on Spark's executors: divides the changes into key buckets, and folds them or joins them to stored rows."""
