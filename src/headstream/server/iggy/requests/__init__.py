"""Requests of binary transports: responses, and polls that wait for messages."""
