"""Converts bytes to values or columns and back. Decoders are pure; any input produces a value or a DecodeError.

The kernels (`batch/`, `avro`, `envelopes`) are compiled if a compiler was present at installation, and
interpreted otherwise; see mode.
"""

from headstream.core.codec import mode

mode.choose()
