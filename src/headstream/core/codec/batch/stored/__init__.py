"""Kernels for sent and stored messages: checks, stamping, compaction, deduplication."""
