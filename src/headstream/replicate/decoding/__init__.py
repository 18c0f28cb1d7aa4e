"""Decodes raw messages into changes, on executors."""
