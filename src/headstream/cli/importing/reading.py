"""Reading: the lines of a file, with their places, and the message or the fault in each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from headstream.cli.lines import decode_line
from headstream.errors import HeadstreamError, InvalidInputError, StorageError
from headstream.model.message import Message, checksum

__all__ = ["Line", "read_lines"]

_LINE_BYTES: Final = 128 << 20
"""The longest line: a message of 64 MiB in base64, with room for its headers."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a file.

    Args:
        number: From 1.
        byte_position: Where it begins.
        raw: Its bytes, with its end.
        message: The message in it, with a topic; None for a blank line and for a bad one.
        fault: Why it is bad, or None.
    """

    number: int
    byte_position: int
    raw: bytes
    message: Message | None = None
    fault: HeadstreamError | None = None


def read_lines(file: Path, byte_position: int, number: int, topic: str | None) -> Iterator[Line]:
    """Iterate over the lines of a file.

    Args:
        file: JSON lines.
        byte_position: Where the first line begins.
        number: The first line's number.
        topic: Where messages go whose lines name no topic.

    Raises:
        InvalidInputError: a line has no end in sight.
        StorageError: the file cannot be read.
    """
    try:
        with file.open("rb") as source:
            source.seek(byte_position)
            while raw := source.readline(_LINE_BYTES):
                if len(raw) == _LINE_BYTES:
                    raise InvalidInputError(f"line {number} is longer than {_LINE_BYTES} bytes", where=str(file))
                yield _decode(number, byte_position, raw, topic)
                number += 1
                byte_position += len(raw)
    except OSError as error:
        raise StorageError(f"cannot read the file: {error.strerror}", where=str(file)) from error


def _decode(number: int, byte_position: int, raw: bytes, topic: str | None) -> Line:
    if raw.isspace():
        return Line(number, byte_position, raw)
    try:
        message = decode_line(raw)
        if message.topic is None:
            if topic is None:
                raise InvalidInputError("the line names no topic", advice="Give one for such lines with --topic")
            message = replace(message, topic=topic)
        if message.checksum is not None and message.checksum != checksum(message.payload or b""):
            raise InvalidInputError("the payload is not the one that the line's checksum was made of")
        return Line(number, byte_position, raw, message)
    except HeadstreamError as error:
        return Line(number, byte_position, raw, fault=error)
