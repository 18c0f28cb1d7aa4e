"""Handlers of commands, called by dispatch.py; modules as in headstream.core.wire.commands."""
