"""Schemas of source tables: the schema store, the registry, and the columns of target tables."""
