"""Reads a partition that can be damaged: its messages, and the ranges of offsets that errors report."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from headstream.core.codec.binary import decode_polled
from headstream.core.model.message import Message
from headstream.errors import CorruptSendError
from headstream.log.segments.files import ReadFiles
from headstream.log.segments.follower import PartitionFollower


class Content(NamedTuple):
    """The content of a message."""

    key: bytes
    payload: bytes | None


@dataclass(slots=True)
class ReadResult:
    """Messages by offset, and the unreadable half-open ranges of offsets."""

    messages: dict[int, Content] = field(default_factory=dict)
    unreadable: list[tuple[int, int]] = field(default_factory=list)

    def is_unreadable(self, offset: int) -> bool:
        """Return whether an offset is in a reported range."""
        return any(begin <= offset < end for begin, end in self.unreadable)


def read_past_damage(files: ReadFiles, directory: str, from_offset: int, rng: random.Random) -> ReadResult:
    """Read a partition to its end, continuing after each damage; AssertionError if an error does not say where.

    Args:
        from_offset: Where to begin.
        rng: Chooses the size of chunks, and where to continue.
    """
    reading = ReadResult()
    with PartitionFollower(directory, files) as follower:
        offset, last = max(from_offset, follower.first_offset), -1
        while offset < follower.end_offset:
            try:
                for message in _messages(follower, offset, rng.choice([200, 5000])):
                    found = -1 if message.offset is None else message.offset
                    if found <= last:
                        raise AssertionError(f"offset {found} comes after {last}")
                    last = found
                    reading.messages[last] = Content(message.key or b"", message.payload)
                    offset = last + 1
                break
            except CorruptSendError as error:
                if error.until_offset <= offset or error.from_offset > error.until_offset:
                    raise AssertionError(f"the error does not say how to continue from {offset}: {error}") from error
                reading.unreadable.append((max(offset, error.from_offset), error.until_offset))
                offset = error.until_offset
                if rng.random() < 0.5:
                    offset = max(offset, follower.next_readable(offset))
                    reading.unreadable.append((error.until_offset, offset))
    return reading


def _messages(follower: PartitionFollower, offset: int, size_bytes: int) -> Iterator[Message]:
    for chunk in follower.read(offset, size_bytes=size_bytes):
        yield from decode_polled(bytes(chunk))
