"""Immutable value classes of the public API. These classes do not encode wire bytes, read the clock or perform I/O."""
