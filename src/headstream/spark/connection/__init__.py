"""Locates the log that a data source reads or writes, and connects to the log's server."""
