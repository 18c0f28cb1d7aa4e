"""Immutable value classes with slots that users work with. No wire bytes, no clock, no I/O."""
