"""Kernels that convert Kafka's records and headers to messages and header blocks, and back."""
