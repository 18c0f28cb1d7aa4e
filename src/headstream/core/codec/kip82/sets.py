"""Message sets of KIP-82: contiguous messages. The last message can be truncated, and messages can be compressed together.

    set       message*                              truncated at the maximum size of a fetch
    wrapper   a message without headers whose value is a compressed set (attributes name the compression)

In magic 0 the messages in a wrapper have absolute offsets. From magic 1 on, the offsets count from 0, and the wrapper has the
offset of the last message. If the log set the wrapper's timestamp, this timestamp applies to all messages in the wrapper.
Wrappers are not nested.
"""

from __future__ import annotations

import gzip
import importlib
import struct
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeAlias

from headstream.core.codec.buffer import BytesLike
from headstream.core.codec.kip82.headers import STRICT, TypedHeaders
from headstream.core.codec.kip82.message import Kip82Message, decode_message, encode_message
from headstream.errors import DecodeError, InvalidInputError, MissingExtraError

Decompress: TypeAlias = Callable[[bytes, int], bytes]
"""Compressed bytes and the maximum size of the result -> the decompressed bytes; ValueError if they are invalid."""

COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_HEAD: Final = struct.Struct(">qi")
_MAX_BYTES: Final = 64 << 20
"""Maximum decompressed size of a wrapper: the maximum size of a poll's reply."""
_SNAPPY_MAGIC: Final = b"\x82SNAPPY\x00"


class MessageSet(NamedTuple):
    """The decompressed messages of a set, with absolute offsets, and the number of bytes of a truncated message after `end`."""

    messages: list[Kip82Message]
    end: int
    incomplete_bytes: int


def encode_set(messages: Iterable[Kip82Message], layout: TypedHeaders = STRICT) -> bytes:
    """Encode a set of messages; HeaderError if the layout cannot represent a header."""
    return b"".join(encode_message(message, layout) for message in messages)


def decode_set(
    data: BytesLike,
    *,
    layout: TypedHeaders = STRICT,
    decompressors: Mapping[int, Decompress] | None = None,
    max_bytes: int = _MAX_BYTES,
) -> MessageSet:
    """Decode the messages of a set.

    Args:
        data: The set; the bytes of a truncated last message are counted.
        decompressors: Compression -> function, instead of gzip from the standard library or the packages python-snappy and lz4.
        max_bytes: Maximum total decompressed size of all wrappers.

    Raises:
        DecodeError: a complete message is invalid; the position refers to the set or to the decompressed bytes of a wrapper.
        MissingExtraError: the package for a compression is not installed.
    """
    view = memoryview(data)
    messages: list[Kip82Message] = []
    at, left = 0, max_bytes
    while at < len(view):
        have = len(view) - at
        if have < 12 or _HEAD.unpack_from(view, at)[1] > have - 12:
            return MessageSet(messages, at, have)
        message, end = decode_message(view, at, layout=layout)
        if message.compression:
            unpacked, used = _unwrap(message, at, layout, decompressors, left)
            left -= used
            messages += unpacked
        else:
            messages.append(message)
        at = end
    return MessageSet(messages, at, 0)


def wrap(messages: list[Kip82Message], compression: int = 1, layout: TypedHeaders = STRICT) -> Kip82Message:
    """Return a gzip-compressed wrapper that contains messages; the messages must have the same magic and ascending offsets."""
    if compression != 1:
        raise InvalidInputError(f"compression {compression} cannot be written", advice="Use 1 (gzip)")
    if not messages or len({message.magic for message in messages}) != 1 or any(message.compression for message in messages):
        raise InvalidInputError("a compressed message set must contain one or more uncompressed messages with the same magic")
    magic, first, last = messages[0].magic, messages[0], messages[-1]
    inner = messages if magic == 0 else [replace(message, offset=message.offset - first.offset) for message in messages]
    value = gzip.compress(encode_set(inner, layout), mtime=0)
    timestamps = [message.timestamp_ms for message in messages if message.timestamp_ms is not None]
    timestamp = max(timestamps) if timestamps else None
    return Kip82Message(value=value, offset=last.offset, timestamp_ms=timestamp, magic=magic, compression=1)


def _unwrap(
    wrapper: Kip82Message, at: int, layout: TypedHeaders, decompressors: Mapping[int, Decompress] | None, max_bytes: int
) -> tuple[list[Kip82Message], int]:
    """Return the messages of a wrapper, and their decompressed size in bytes."""
    where = f"the compressed set at byte {at}"
    if wrapper.value is None:
        raise DecodeError("a compressed message set is null", at, where=where)
    if wrapper.headers and layout.strict:
        raise DecodeError("a compressed message set must not have headers", at, where=where)
    try:
        data = decompress(wrapper.compression, wrapper.value, max_bytes, decompressors)
    except DecodeError as error:
        raise DecodeError(error.what, at, where=where) from None
    messages: list[Kip82Message] = []
    inner_at = 0
    while inner_at < len(data):
        try:
            message, inner_at = decode_message(data, inner_at, layout=layout)
        except DecodeError as error:
            raise DecodeError(f"{error.what} (byte {error.at} of the decompressed set)", at, where=where) from None
        if message.compression:
            raise DecodeError("a compressed message set contains another compressed message set", at, where=where)
        messages.append(message)
    if not messages:
        raise DecodeError("a compressed message set contains no message", at, where=where)
    if wrapper.magic >= 1:
        base = wrapper.offset - messages[-1].offset
        messages = [_with_own_offset(message, base, wrapper) for message in messages]
    return messages, len(data)


def _with_own_offset(message: Kip82Message, base: int, wrapper: Kip82Message) -> Kip82Message:
    """Return a message of a wrapper with its absolute offset and time; if nothing changes, its received bytes are kept."""
    by_log = wrapper.by_log and message.magic >= 1
    if not base and not by_log:
        return message
    timestamp = wrapper.timestamp_ms if by_log else message.timestamp_ms
    return replace(message, offset=message.offset + base, timestamp_ms=timestamp, by_log=by_log or message.by_log)


def decompress(compression: int, data: bytes, max_bytes: int, decompressors: Mapping[int, Decompress] | None = None) -> bytes:
    """Decompress at most `max_bytes`; the compression is 1 for gzip, 2 for snappy, 3 for lz4."""
    name = COMPRESSIONS[compression] if compression < len(COMPRESSIONS) else str(compression)
    function = (decompressors or {}).get(compression) or _DEFAULT_DECOMPRESSORS.get(compression)
    if function is None:
        raise DecodeError(f"the compression must be gzip, snappy or lz4, not {name}", 0)
    try:
        result = function(data, max_bytes)
    except MissingExtraError:
        raise
    except Exception as error:  # each library raises its own exceptions
        raise DecodeError(f"the bytes are not valid {name}: {str(error)[:80]}", 0) from None
    if len(result) > max_bytes:
        raise DecodeError(f"{len(data)} bytes of {name} decompress to more than {max_bytes} bytes", 0)
    return result


def _gunzip(data: bytes, max_bytes: int) -> bytes:
    stream = zlib.decompressobj(wbits=31)
    result = stream.decompress(data, max_bytes + 1)
    if len(result) <= max_bytes and not stream.eof:
        raise ValueError("the data is cut short")
    return result


def _unsnap(data: bytes, max_bytes: int) -> bytes:
    raw = _load("snappy", ("snappy", "uncompress"))
    if not data.startswith(_SNAPPY_MAGIC):
        _check_snappy_size(data, max_bytes)
        return bytes(raw(data))
    parts: list[bytes] = []
    at, total = 16, 0  # the Java library's framing: magic, two versions, then blocks after their lengths
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        block = data[at + 4 : at + 4 + size]
        if len(block) != size or not size:
            raise ValueError("a block is cut short")
        total += _check_snappy_size(block, max_bytes - total)
        parts.append(bytes(raw(block)))
        at += 4 + size
    return b"".join(parts)


def _check_snappy_size(data: bytes, max_bytes: int) -> int:
    """Return the decompressed size that a raw block declares, before it is decompressed."""
    size = shift = 0
    for byte in data[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > max_bytes:
        raise ValueError(f"the data declares a decompressed size of {size} bytes, which exceeds the limit")
    return size


def _unlz4(data: bytes, max_bytes: int) -> bytes:
    stream: Any = _load("lz4", ("lz4.frame", "LZ4FrameDecompressor"))()
    result = bytes(stream.decompress(data, max_length=max_bytes + 1))
    if len(result) <= max_bytes and not stream.eof:
        raise ValueError("the data is cut short")
    return result


def _load(name: str, *places: tuple[str, str]) -> Callable[..., Any]:
    """Import and return the first available function in a list of (module, function name)."""
    for module, function in places:
        try:
            found: Any = importlib.import_module(module)
        except ImportError:
            continue
        loaded: Callable[..., Any] = getattr(found, function)
        return loaded
    packages = {"snappy": "python-snappy", "lz4": "lz4"}
    raise MissingExtraError(
        f"messages compressed with {name} need a package that is not installed",
        advice=f"Run: pip install {packages[name]}, or set decompressors=",
    )


_DEFAULT_DECOMPRESSORS: Final[Mapping[int, Decompress]] = {1: _gunzip, 2: _unsnap, 3: _unlz4}
