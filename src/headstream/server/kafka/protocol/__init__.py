"""Encodes Kafka's protocol: frames, request and response schemas, error codes. Sans-IO."""
