"""The TCP transport."""
