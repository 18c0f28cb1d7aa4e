"""PySpark's Python workers: forking, exit, memory, environment variables and Arrow functions."""
