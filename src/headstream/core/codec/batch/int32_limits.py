"""Limits the sizes of columns and of the header blocks of a batch, because their offsets are int32."""

from __future__ import annotations

from typing import Final

from headstream.errors import LimitError

MAX_OFFSET: Final = (1 << 31) - 1


def check_column(name: str, size: int) -> None:
    """Raise LimitError if a column exceeds the range of int32 offsets."""
    if size > MAX_OFFSET:
        what = f"{size} bytes exceed the limit of {MAX_OFFSET} bytes per column"
        raise LimitError(what, where=f"column {name}", advice="Decode fewer messages per call")


def check_blocks(size: int) -> None:
    """Raise LimitError if the headers of a batch exceed the range of int32 offsets."""
    if size > MAX_OFFSET:
        raise LimitError(f"{size} bytes of headers exceed the limit of {MAX_OFFSET}", advice="Pass fewer rows per call")
