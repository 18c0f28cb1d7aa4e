"""Checks of a command that run before authentication and set the error's exact status."""

from __future__ import annotations

from headstream.core.wire.refusals import refusal
from headstream.core.wire.statuses import Status


def check_bytes(text: str, least: int, most: int, status: Status, what: str) -> None:
    """Raise an error if a string has too few or too many bytes in UTF-8."""
    size = len(text.encode("utf-8", "surrogatepass"))
    if not least <= size <= most:
        raise refusal(status, f"{what} must have {least} to {most} bytes, not {size}")


def check_count(count: int, least: int, most: int, status: Status, what: str) -> None:
    """Raise an error if a number is out of range; arguments as for check_bytes()."""
    if not least <= count <= most:
        raise refusal(status, f"{what} must be {least} to {most}, not {count}")
