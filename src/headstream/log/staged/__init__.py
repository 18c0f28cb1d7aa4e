"""Staged commits: batches from any process are committed together, exactly once.

staging.py     files with messages in the log's directory, written by any process
submission.py  the commit by the writer of the batches: one rename of a manifest
commits.py     the commit by the log's writer: intent -> append -> done
"""
