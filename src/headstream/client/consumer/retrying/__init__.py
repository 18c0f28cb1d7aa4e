"""Consumers that try failing messages again: attempts, delays and dead letters."""
