"""Stored messages to columns."""
