"""How much goes into one column, or into the header blocks of one batch: their offsets are int32."""

from __future__ import annotations

from typing import Final

from headstream.errors import LimitError

__all__ = ["MAX_OFFSET", "check_blocks", "check_column"]

MAX_OFFSET: Final = (1 << 31) - 1


def check_column(name: str, size: int) -> None:
    """Refuse a column that its offsets could not say.

    Args:
        name: The column's name.
        size: Its bytes.

    Raises:
        LimitError: they are too many.
    """
    if size > MAX_OFFSET:
        what = f"{size} bytes are more than the {MAX_OFFSET} of one column"
        raise LimitError(what, where=f"column {name}", advice="Decode fewer messages at once")


def check_blocks(size: int) -> None:
    """Refuse header blocks that their offsets could not say.

    Args:
        size: The bytes of all headers of a batch.

    Raises:
        LimitError: they are too many.
    """
    if size > MAX_OFFSET:
        raise LimitError(f"{size} bytes of headers in one batch", advice="Give fewer rows at once")
