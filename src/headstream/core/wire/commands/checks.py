"""Checks of a command that run before authentication, with the precise status."""

from __future__ import annotations

from headstream.core.wire.refusals import refusal
from headstream.core.wire.statuses import Status


def check_bytes(text: str, least: int, most: int, status: Status, what: str) -> None:
    """Reject a text whose UTF-8 has too few or too many bytes."""
    size = len(text.encode("utf-8", "surrogatepass"))
    if not least <= size <= most:
        raise refusal(status, f"{what} has {least} to {most} bytes, not {size}")


def check_count(count: int, least: int, most: int, status: Status, what: str) -> None:
    """Reject a number that is out of range; arguments as for check_bytes()."""
    if not least <= count <= most:
        raise refusal(status, f"{what} is from {least} to {most}, not {count}")
