"""Immutable value classes of the public API. They do not encode wire bytes, read the clock or perform I/O."""
