"""The answers to commands: a file a noun, as in headstream.wire.commands; dispatch.py finds who answers what."""
