"""Decodes raw messages to changes, on executors."""
