"""Consumers: batches are polled and decoded, delivered message by message, and committed after processing."""
