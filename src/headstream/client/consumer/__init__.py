"""Consumers: poll and decode batches, deliver single messages, and commit offsets after processing."""
