"""Kafka's record headers to header blocks, and back."""
