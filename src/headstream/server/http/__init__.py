"""The transport HTTP."""
