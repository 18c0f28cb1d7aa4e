"""Producers: messages are encoded, grouped into batches, sent in the background, and retried until their outcome is known."""
