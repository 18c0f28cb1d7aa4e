"""Columns to sent messages."""
