"""Engines, through which all Delta tables are accessed. All engines run merges that plan.py describes.

engine.py         the interface
deltalake.py      deltalake (Rust), in the driver           rewriting.py   rewrites small wide tables
delta_spark.py    Spark's MERGE                             mapped.py      tables with column mapping
cluster_engine.py deltalake or Spark, by the size of changes and table
guarded.py        saves the checkpoint before each commit
"""
