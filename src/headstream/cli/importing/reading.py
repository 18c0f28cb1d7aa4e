"""Reads the lines of a file: the position of each line, and its message or error."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from headstream.cli.shared.lines import decode_line
from headstream.core.model.message import Message, checksum
from headstream.errors import HeadstreamError, InvalidInputError, StorageError

_LINE_BYTES: Final = 128 << 20
"""Maximum length of a line: a message of 64 MiB in base64 with its headers."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a file.

    Args:
        number: Line number, from 1.
        message: The message, which has a topic; None for a blank or bad line.
        fault: Why the line is bad, or None.
    """

    number: int
    byte_position: int
    raw: bytes
    message: Message | None = None
    fault: HeadstreamError | None = None


def read_lines(file: Path, byte_position: int, number: int, topic: str | None) -> Iterator[Line]:
    """Yield JSON lines from a position and line number on, with a default topic; InvalidInputError if a line is too long."""
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
                raise InvalidInputError("the line has no topic", advice="Set a topic for such lines with --topic")
            message = replace(message, topic=topic)
        if message.checksum is not None and message.checksum != checksum(message.payload or b""):
            raise InvalidInputError("the payload does not match the line's checksum")
        return Line(number, byte_position, raw, message)
    except HeadstreamError as error:
        return Line(number, byte_position, raw, fault=error)
