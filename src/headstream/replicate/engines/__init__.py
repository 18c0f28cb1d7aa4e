"""Engines: they alone access Delta tables. plan.py is the description of a merge that each of them runs.

engine.py         the interface
deltalake.py      deltalake (Rust), in the driver           rewriting.py   small wide tables, written again
delta_spark.py    Spark's MERGE                             mapped.py      tables with column mapping
cluster_engine.py one of both, by the size of changes and table
guarded.py        saves the checkpoint before each commit
"""
