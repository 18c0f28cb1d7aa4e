"""Handlers of commands: a file a noun, as in headstream.core.wire.commands; dispatch.py calls them."""
