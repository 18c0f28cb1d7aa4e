"""Decompresses record batches up to a limit; declared sizes are not trusted."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Final

import cramjam
import lz4.frame
import zstandard

from headstream.errors import DecodeError, LimitError
from headstream.server.kafka.protocol.error_codes import ErrorCode, ProtocolError

_GZIP_WINDOW: Final = 31
_XERIAL: Final = b"\x82SNAPPY\0"
_XERIAL_HEAD: Final = 16
"""Size of the header that Java clients write before snappy blocks (length i32 | block): magic, version, compatible version."""
_MOST_BLOCKS: Final = 4096
"""Maximum blocks of a frame whose sizes are added up; Java clients write blocks of 32 KiB, and batches of at most 64 MiB."""
_ZSTD_WINDOW: Final = 1 << 27
"""Maximum window that the zstd tool uses by default."""


def decompress(codec: int, data: memoryview, most_bytes: int) -> bytes | memoryview:
    """Decompress records.

    Args:
        codec: Codec number in a batch's attributes: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.

    Raises:
        DecodeError: the bytes are not valid for the codec.
        LimitError: the decompressed size exceeds the limit.
        ProtocolError: the codec is unknown.
    """
    if codec == 0:
        return data
    read = _READERS.get(codec)
    if read is None:
        raise ProtocolError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"unknown compression {codec}")
    try:
        found = read(data, most_bytes + 1)
    except (zlib.error, cramjam.DecompressionError, RuntimeError, EOFError, zstandard.ZstdError, ValueError) as error:
        raise DecodeError(f"the records cannot be decompressed: {error}", 0) from None
    if len(found) > most_bytes:
        raise LimitError(f"the records exceed the limit of {most_bytes} bytes", advice="Send smaller batches")
    return found


def bound_decompressed(codec: int, data: memoryview, most_bytes: int) -> int:
    """Return the declared size of compressed records, else the maximum size to which the codec can expand them.

    decompress() with this limit rejects records that are larger than declared.
    """
    if codec not in _RATIOS:
        return 0
    try:
        size = _SIZES[codec](data)
    except (RuntimeError, zstandard.ZstdError, ValueError, EOFError):
        size = None  # decompress() raises an error with the reason
    return min(most_bytes, len(data) * _RATIOS[codec] if size is None else size)


def _declared_gzip_size(data: memoryview) -> int | None:
    return int.from_bytes(data[-4:], "little") if len(data) >= 18 else None


def _declared_snappy_size(data: memoryview) -> int | None:
    if bytes(data[:8]) != _XERIAL:
        return _snappy_size(data)
    at, size = _XERIAL_HEAD, 0
    for _ in range(_MOST_BLOCKS):
        if at >= len(data):
            return size
        size += _snappy_size(data[at + 4 :])
        at += 4 + int.from_bytes(data[at : at + 4], "big")
    return None


def _declared_lz4_size(data: memoryview) -> int | None:
    size: int = lz4.frame.get_frame_info(bytes(data[:32]))["content_size"]
    return size or None


def _declared_zstd_size(data: memoryview) -> int | None:
    size = zstandard.frame_content_size(bytes(data[:32]))
    return size if size >= 0 else None


def _gunzip(data: memoryview, most_bytes: int) -> bytes:
    stream = zlib.decompressobj(_GZIP_WINDOW)
    found = stream.decompress(data, most_bytes)
    if len(found) < most_bytes and not stream.eof:
        raise EOFError("the stream is cut short")
    return found


def _unsnap(data: memoryview, most_bytes: int) -> bytes:
    if bytes(data[:8]) != _XERIAL:
        return _unsnap_block(data, most_bytes)
    at, size, parts = _XERIAL_HEAD, 0, list[bytes]()
    while at < len(data) and size < most_bytes:
        length = int.from_bytes(data[at : at + 4], "big")
        if length > len(data) - at - 4:
            raise EOFError("a block is cut short")
        parts.append(_unsnap_block(data[at + 4 : at + 4 + length], most_bytes - size))
        size += len(parts[-1])
        at += 4 + length
    return b"".join(parts)


def _unsnap_block(data: memoryview, most_bytes: int) -> bytes:
    """Decompress a block that starts with its length; for a block above the limit, return zeros of this length."""
    if _snappy_size(data) >= most_bytes:
        return bytes(most_bytes)
    return bytes(cramjam.snappy.decompress_raw(data))


def _snappy_size(data: memoryview) -> int:
    size = shift = 0
    for byte in data[:5]:
        size |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    return size


def _unlz4(data: memoryview, most_bytes: int) -> bytes:
    stream = lz4.frame.LZ4FrameDecompressor()
    found: bytes = stream.decompress(data, most_bytes)
    if len(found) < most_bytes and not stream.eof:
        raise EOFError("the frame is cut short")
    return found


def _unzstd(data: memoryview, most_bytes: int) -> bytes:
    stream = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW).stream_reader(data, read_across_frames=True)
    parts, size = list[bytes](), 0
    while size < most_bytes and (part := stream.read(most_bytes - size)):
        parts.append(part)
        size += len(part)
    return b"".join(parts)


_SIZES: Final[dict[int, Callable[[memoryview], int | None]]] = {
    1: _declared_gzip_size,
    2: _declared_snappy_size,
    3: _declared_lz4_size,
    4: _declared_zstd_size,
}
_RATIOS: Final = {1: 1032, 2: 22, 3: 255, 4: 1 << 15}
"""Maximum expansion by codec: deflate: longest match in two bits; snappy: 64 in 3 bytes; lz4: length byte; zstd: one byte."""
_READERS: Final[dict[int, Callable[[memoryview, int], bytes]]] = {1: _gunzip, 2: _unsnap, 3: _unlz4, 4: _unzstd}
