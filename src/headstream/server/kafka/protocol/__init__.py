"""Encodes Kafka's protocol: frames, schemas of requests and responses, error codes. Sans-IO."""
