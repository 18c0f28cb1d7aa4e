"""Staged commits: batches of any process become visible together, exactly once.

staging.py     files of messages beside the log, written by any process
submission.py  the commit as its author makes it: one rename of a manifest
commits.py     the commit as the log's writer applies it: intent -> append -> done
"""
