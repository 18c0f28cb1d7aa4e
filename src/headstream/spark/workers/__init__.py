"""PySpark's Python workers: forking, exit, and Python functions."""
