"""Handlers of commands: a file a noun, as in headstream.wire.commands; dispatch.py calls them."""
