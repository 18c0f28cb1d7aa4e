"""Compares the tables of a source database with the tables of a pipeline, and repairs differing rows through the pipeline."""
