"""Metrics: families of prometheus_client as text, as a file for a collector, and over OTLP."""
