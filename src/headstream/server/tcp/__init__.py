"""The transport TCP."""
