"""Iceberg tables beside the Delta tables, with the same data files."""
