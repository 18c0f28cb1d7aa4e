"""Schemas of source tables: the zone, the registry, and the columns of target tables."""
