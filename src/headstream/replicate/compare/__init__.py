"""Compares the tables of a source database with the tables of a pipeline, and sends differing rows through the pipeline."""
