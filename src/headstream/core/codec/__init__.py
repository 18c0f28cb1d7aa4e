"""Converts bytes to values or columns and back. Decoders are pure; any input produces a value or a DecodeError.

Most kernels (`batch/`) are compiled if a C compiler was present at installation, and interpreted otherwise; see mode.py.
"""

from headstream.core.codec import mode

mode.choose()
