"""What is checked of a command before anybody looks at who sent it, with the precise status."""

from __future__ import annotations

from headstream.wire.refusals import refusal
from headstream.wire.statuses import Status

__all__ = ["check_bytes", "check_count"]


def check_bytes(text: str, least: int, most: int, status: Status, what: str) -> None:
    """Refuse a text that has too few or too many bytes of UTF-8.

    Args:
        text: The text.
        least: The fewest bytes.
        most: The most bytes.
        status: What the refusal is.
        what: What the text is, for the refusal.
    """
    size = len(text.encode("utf-8", "surrogatepass"))
    if not least <= size <= most:
        raise refusal(status, f"{what} has {least} to {most} bytes, this one has {size}")


def check_count(count: int, least: int, most: int, status: Status, what: str) -> None:
    """Refuse a number that is out of range; arguments as for check_bytes()."""
    if not least <= count <= most:
        raise refusal(status, f"{what} is from {least} to {most}, not {count}")
