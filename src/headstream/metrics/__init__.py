"""Metrics: exports families of prometheus_client as text, to a file for a collector, and over OTLP."""
