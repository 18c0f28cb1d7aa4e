"""Kafka's protocol in bytes: frames, the schemas of requests and responses, error codes. Sans-IO."""
