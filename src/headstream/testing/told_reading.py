"""What a reader gets of a partition that may be damaged: messages, and the ranges of offsets that it is told of."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from headstream.codec.binary import decode_polled
from headstream.errors import CorruptSendError
from headstream.model.message import Message
from headstream.segments.files import ReadFiles
from headstream.segments.follower import PartitionFollower

__all__ = ["Content", "Reading", "read_told"]


class Content(NamedTuple):
    """What a message holds."""

    key: bytes
    payload: bytes | None


@dataclass(slots=True)
class Reading:
    """Messages by offset, and half-open ranges of offsets."""

    messages: dict[int, Content] = field(default_factory=dict)
    told: list[tuple[int, int]] = field(default_factory=list)

    def tells(self, offset: int) -> bool:
        """Return whether an offset is in a range that the reader was told of."""
        return any(begin <= offset < end for begin, end in self.told)


def read_told(files: ReadFiles, directory: str, from_offset: int, rng: random.Random) -> Reading:
    """Read a partition to its end, behind each damage too; AssertionError where a reader is not told how to go on.

    Args:
        files: Where it is.
        directory: The partition's.
        from_offset: Where to begin.
        rng: Chooses the size of chunks, and how to go on.
    """
    reading = Reading()
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
                    raise AssertionError(f"it is not told how to go on from {offset}: {error}") from error
                reading.told.append((max(offset, error.from_offset), error.until_offset))
                offset = error.until_offset
                if rng.random() < 0.5:
                    offset = max(offset, follower.next_readable(offset))
                    reading.told.append((error.until_offset, offset))
    return reading


def _messages(follower: PartitionFollower, offset: int, size_bytes: int) -> Iterator[Message]:
    for chunk in follower.read(offset, size_bytes=size_bytes):
        yield from decode_polled(bytes(chunk))
