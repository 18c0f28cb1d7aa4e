"""Avro: schemas, single values, and compiled decoding of flat records to columns."""
