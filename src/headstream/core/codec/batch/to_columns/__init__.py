"""Kernels that convert stored messages to columns."""
