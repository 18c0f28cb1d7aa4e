"""Bytes to values or columns and back: pure and total, any input gives a value or a DecodeError.

The hot path (`batch/`, `avro`, `envelopes`) is compiled where a compiler was there at installation, and
runs interpreted elsewhere; see mode.
"""

from headstream.codec import mode

mode.choose()
