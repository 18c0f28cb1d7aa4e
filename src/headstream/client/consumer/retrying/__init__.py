"""Consumers that retry failed messages: attempts, delays and dead letters."""
