"""Converts bytes to values or columns and back. Decoders are pure; any input produces a value or a DecodeError.

Most modules in `batch/` are compiled if a C compiler was present at installation; otherwise, they run interpreted (mode.py).
"""

from headstream.core.codec import mode

mode.choose()
