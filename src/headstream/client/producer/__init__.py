"""Producers: encode and batch messages, send batches in the background, and retry until the outcome is known."""
