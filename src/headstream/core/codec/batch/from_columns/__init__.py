"""Kernels that convert columns to sent messages."""
