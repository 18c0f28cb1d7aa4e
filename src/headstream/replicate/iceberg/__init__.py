"""Iceberg tables that share the data files of the Delta tables."""
