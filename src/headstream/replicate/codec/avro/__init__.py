"""Flat Avro records to columns, compiled; single values, schemas."""
