"""Metrics: exports prometheus_client families as text, to a file for a collector, and over OTLP."""
