"""A bounded cursor over Avro's binary encoding; invalid bytes raise DecodeError with their position.

int, long      zig-zag varint, at most 10 bytes        boolean   1 byte, 0 or 1
string, bytes  varint length, then UTF-8 or bytes      index     varint: the number of an enum's symbol or a union's branch
array, map     blocks: varint count, items; a count of 0 ends the blocks;
               count < 0: -count items, preceded by a varint of their size in bytes
"""

from __future__ import annotations

from typing import Final

from headstream.errors import DecodeError
from headstream.replicate.codec.avro.codes import SPARE_VALUES

INT_RANGE: Final = (-(1 << 31), (1 << 31) - 1)
# Maximum number of entries of a map of strings (an envelope's headers), since each key is compared with all earlier keys.
MAX_MAP_ENTRIES: Final = 256


class AvroReader:
    """A cursor that reads values from bytes; positions in errors count from the start of the bytes.

    Args:
        end: Position at which to stop; None: the end of the data.
    """

    __slots__ = ("at", "data", "end", "spare")

    def __init__(self, data: bytes, at: int = 0, end: int | None = None) -> None:
        self.data = data
        self.at = at
        self.end = len(data) if end is None else end
        self.spare = SPARE_VALUES + 4 * (self.end - at)

    def pull(self, size: int, subject: str) -> bytes:
        """Return the next `size` bytes."""
        if size < 0:
            raise DecodeError(f"{subject} has the negative length {size}", self.at)
        if size > self.end - self.at:
            raise DecodeError(f"{subject} is cut short", self.at, size, self.end - self.at)
        self.at += size
        return self.data[self.at - size : self.at]

    def pull_long(self, subject: str) -> int:
        """Return the next long, -2^63 to 2^63-1."""
        value = shift = 0
        start = self.at
        while True:
            if self.at >= self.end:
                raise DecodeError(f"{subject} is cut short", start, self.end - start + 1, self.end - start)
            byte = self.data[self.at]
            self.at += 1
            if shift == 63 and byte > 1:
                raise DecodeError(f"{subject} must have at most 64 bits", start)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            shift += 7

    def pull_int(self, subject: str) -> int:
        """Return the next int, -2^31 to 2^31-1."""
        start = self.at
        value = self.pull_long(subject)
        if not INT_RANGE[0] <= value <= INT_RANGE[1]:
            raise DecodeError(f"{subject} is {value}, which does not fit an int", start)
        return value

    def pull_bytes(self, subject: str) -> bytes:
        """Return the next bytes value, which has a length prefix."""
        return self.pull(self.pull_long(subject), subject)

    def pull_string(self, subject: str) -> str:
        """Return the next string, which has a length prefix."""
        data = self.pull_bytes(subject)
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise DecodeError(f"{subject} is not UTF-8", self.at - len(data) + error.start) from None

    def pull_boolean(self, subject: str) -> bool:
        """Return the next boolean."""
        value = self.pull(1, subject)[0]
        if value > 1:
            raise DecodeError(f"{subject} must be a boolean (0 or 1), not {value}", self.at - 1)
        return value == 1

    def pull_index(self, count: int, subject: str) -> int:
        """Return the next index, below `count`, of a symbol or branch."""
        start = self.at
        index = self.pull_long(subject)
        if not 0 <= index < count:
            raise DecodeError(f"the index of {subject} must be below {count}, not {index}", start)
        return index

    def pull_block(self, subject: str) -> int:
        """Return the number of items in the next block of an array or map; 0 after the last block."""
        start = self.at
        count = self.pull_long(subject)
        if count < 0:
            count = -count
            size = self.pull_long(subject)
            if not 0 <= size <= self.end - self.at:
                raise DecodeError(f"a block of {subject} is cut short", start, size, self.end - self.at)
        if count > self.spare:
            raise DecodeError(f"{subject} has more items than its bytes can hold", start)
        return count

    def pull_map(self, subject: str) -> dict[str, str]:
        """Return the next map of strings; raise DecodeError for a duplicate key or more than MAX_MAP_ENTRIES entries."""
        pairs: dict[str, str] = {}
        while count := self.pull_block(subject):
            if count > MAX_MAP_ENTRIES - len(pairs):
                raise DecodeError(f"{subject} has more than {MAX_MAP_ENTRIES} entries", self.at)
            for _ in range(count):
                start = self.at
                key = self.pull_string(subject)
                if key in pairs:
                    raise DecodeError(f"{subject} has the key {key!r} twice", start)
                pairs[key] = self.pull_string(subject)
        return pairs

    def finish(self, subject: str) -> None:
        """Raise DecodeError if bytes remain."""
        if self.at != self.end:
            raise DecodeError(f"{self.end - self.at} unexpected bytes after {subject}", self.at)
