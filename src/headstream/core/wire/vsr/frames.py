"""The frames of protocol 0.11: a header of 256 bytes, then a body. Numbers are little-endian; unnamed bytes are 0.

    request    48 size u32 | 60 command u8 = 5 | 128 client u128 | 144 checksum of the body u128, or 0 | 160 time u64
               | 168 request u64 | 176 operation u8 | 184 session u64 | 196 code u32, for reads only
    reply      48 size u32 | 60 command u8 = 8 | 128 checksum u128 | 160 client u128 | 176 op u64 | 184 commit u64 | 192 time u64
               | 200 request u64 | 208 operation u8 | 216 status u32
    eviction   48 size u32 = 256 | 60 command u8 = 13 | 128 client u128 | 144 highest, 148 lowest protocol u32 | 255 reason u8

`size` is the size of header and body. frames.pxd holds the positions for compiled code. The first 48 bytes of a request are 0. A
server recognizes the protocol by these zeros, because frames of the older protocol begin with their length. A client sends one
request at a time.
"""

from __future__ import annotations

import enum
import struct
from typing import Final, NamedTuple

import xxhash

from headstream.core.codec.batch.layout import positions
from headstream.core.wire.frame_scan import FrameScan
from headstream.core.wire.vsr.operations import READ, code_of

PROTOCOL: Final = 11 << 10
"""Version 0.11.0 as major << 20 | minor << 10 | patch."""

_REQUEST: Final = struct.Struct("<48x I 8x B 67x 16s 16s Q Q B 7x Q 4x I 56x")
_REPLY: Final = struct.Struct("<48x I 8x B 67x 16s 16x 16s Q Q Q Q B 7x I 36x")
_EVICTION: Final = struct.Struct("<48xI8xB67x16sII103xB")
REQUEST_SIZE, REQUEST_COMMAND, REQUEST_CLIENT, REQUEST_CHECKSUM, *_rest = positions(_REQUEST.format)
*_rest, REQUEST_TIME, REQUEST_NUMBER, REQUEST_OPERATION, REQUEST_SESSION, REQUEST_CODE, HEADER_BYTES = positions(_REQUEST.format)
REPLY_SIZE, REPLY_COMMAND, REPLY_CHECKSUM, REPLY_CLIENT, REPLY_OP, REPLY_COMMIT, *_rest = positions(_REPLY.format)
*_rest, REPLY_TIME, REPLY_REQUEST, REPLY_OPERATION, REPLY_STATUS, _ = positions(_REPLY.format)
IS_REQUEST: Final = 5
IS_REPLY: Final = 8
_IS_EVICTION: Final = 13
_NO_CLIENT: Final = bytes(16)


class Eviction(enum.IntEnum):
    """The reason why a client's session ends."""

    NO_SESSION = 1
    INVALID_CREDENTIALS = 9
    INVALID_TOKEN = 10
    USER_INACTIVE = 11
    STALE_CLIENT = 13
    INCOMPATIBLE_PROTOCOL = 14
    MALFORMED_LOGIN = 15


class RequestHeader(NamedTuple):
    """The fields of a request's header that a server reads; the reply repeats most of these fields."""

    size: int
    command: int
    client: bytes
    checksum: bytes
    time: int
    request: int
    operation: int
    session: int
    read_code: int

    @classmethod
    def decode(cls, frame: memoryview) -> RequestHeader:
        """Decode the header at the beginning of a frame of at least 256 bytes."""
        return cls(*_REQUEST.unpack_from(frame))

    @property
    def is_read(self) -> bool:
        """Whether the request is a read, which needs no session."""
        return self.operation == READ

    def matches(self, body: memoryview) -> bool:
        """Return whether the body matches the checksum in the header; True if the header has no checksum."""
        return self.checksum == _NO_CLIENT or int.from_bytes(self.checksum, "little") == xxhash.xxh3_64_intdigest(body)


def scan_requests(view: memoryview, at: int, end: int, most: int) -> FrameScan:
    """Return the complete requests between two byte positions, including their headers; see scan_frames().

    If a header is not the header of a request, its frame is returned with code -1, and no further byte can be read.
    """
    frames: list[tuple[int, int, int]] = []
    while end - at >= HEADER_BYTES:
        header = RequestHeader.decode(view[at : at + HEADER_BYTES])
        if header.size < HEADER_BYTES or header.command != IS_REQUEST or header.client == _NO_CLIENT:
            frames.append((-1, at, at + HEADER_BYTES))
            return FrameScan(frames, end, HEADER_BYTES, False)
        if header.size > most or header.size > end - at:
            return FrameScan(frames, at, header.size, header.size > most)
        frames.append((code_of(header.operation, header.read_code), at, at + header.size))
        at += header.size
    return FrameScan(frames, at, HEADER_BYTES, False)


def encode_reply_head(request: RequestHeader, status: int, size: int, session: int) -> bytes:
    """Encode the header of a reply; the session number must be greater than 0."""
    return _REPLY.pack(
        *(HEADER_BYTES + size, IS_REPLY, request.checksum, request.client, session, request.request or 1),
        *(request.time, request.request, request.operation, status),
    )


def encode_eviction(client: bytes, reason: Eviction) -> bytes:
    """Encode the eviction of a client id of 16 bytes; only INCOMPATIBLE_PROTOCOL states the accepted protocol."""
    protocol = PROTOCOL if reason is Eviction.INCOMPATIBLE_PROTOCOL else 0
    return _EVICTION.pack(
        HEADER_BYTES, _IS_EVICTION, client if client != _NO_CLIENT else b"\x01" + bytes(15), protocol, protocol, reason
    )
