"""Payload compression; headers stay readable. The header `hs.compression` names the algorithm, `zlib` or `zstd`."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from headstream.core.model.message import Message
from headstream.core.model.reserved import COMPRESSION_HEADER
from headstream.core.model.topology import MAX_BATCH_BYTES
from headstream.errors import InvalidInputError, InvalidOptionError, MissingExtraError
from headstream.interceptors.interceptor import Interceptor

_MIN_BYTES: Final = 256
"""Compression of smaller payloads is not worth the header and the CPU time."""
_LEVELS: Final = {"zlib": (6, range(10)), "zstd": (3, range(1, 23))}


class Compression(Interceptor):
    """Compresses the payload of a sent message if this makes the message smaller, and decompresses received payloads.

    Received messages without the header `hs.compression` are delivered unchanged. Sent messages with the header are not
    compressed.

    Args:
        algorithm: `zlib`, of the standard library, or `zstd` (the extra `zstd`).
        min_bytes: Minimum payload size for compression, bytes; smaller payloads are sent unchanged.
        level: 0 to 9 for zlib, 1 to 22 for zstd; None is the library's default.

    Raises:
        InvalidOptionError: an option is unknown or out of range.
        MissingExtraError: zstandard is not installed.
    """

    def __init__(self, algorithm: str = "zlib", *, min_bytes: int = _MIN_BYTES, level: int | None = None) -> None:
        if algorithm not in _LEVELS:
            raise InvalidOptionError(f"algorithm must be {' or '.join(_LEVELS)}, not {algorithm!r}")
        default, levels = _LEVELS[algorithm]
        level = default if level is None else level
        if level not in levels:
            raise InvalidOptionError(f"level must be {levels[0]} to {levels[-1]}, not {level}")
        if min_bytes < 0:
            raise InvalidOptionError(f"min_bytes must be at least 0, not {min_bytes}")
        self._algorithm = algorithm
        self._min_bytes = min_bytes
        self._compress = _compressor(algorithm, level)
        self._added_bytes = len(COMPRESSION_HEADER) + len(algorithm) + 9  # kind and two lengths of the header

    def on_send(self, message: Message) -> Message:
        """Compress a payload, and add the header."""
        payload = message.payload
        if payload is None or len(payload) < self._min_bytes or COMPRESSION_HEADER in message.headers:
            return message
        compressed = self._compress(payload)
        if len(compressed) + self._added_bytes >= len(payload):
            return message
        headers = message.headers.with_((COMPRESSION_HEADER, self._algorithm))
        return replace(message, payload=compressed, headers=headers, checksum=-1)

    def on_receive(self, message: Message) -> Message:
        """Decompress a payload, and remove the header."""
        found = message.headers.get(COMPRESSION_HEADER)
        if found is None or message.payload is None:
            return message
        algorithm = str(found.value)
        if algorithm not in _LEVELS:
            raise InvalidInputError(f"{COMPRESSION_HEADER} must be {' or '.join(_LEVELS)}, not {algorithm!r}")
        payload = (_unzlib if algorithm == "zlib" else _unzstd)(message.payload)
        return replace(message, payload=payload, headers=message.headers.without(COMPRESSION_HEADER), checksum=-1)


def _compressor(algorithm: str, level: int) -> Callable[[bytes], bytes]:
    if algorithm == "zlib":
        return lambda payload: zlib.compress(payload, level)
    library = _zstandard()
    # The library's compressors are not thread-safe; creating a compressor costs little compared with compressing.
    return lambda payload: bytes(library.ZstdCompressor(level=level).compress(payload))


def _unzlib(data: bytes) -> bytes:
    stream = zlib.decompressobj()
    try:
        payload = stream.decompress(data, MAX_BATCH_BYTES + 1)
    except zlib.error as error:
        raise InvalidInputError(f"the payload is not zlib data: {error}") from None
    _check_size(payload)
    if not stream.eof or stream.unused_data:
        raise InvalidInputError("the payload is not one complete zlib stream")
    return payload


def _unzstd(data: bytes) -> bytes:
    library = _zstandard()
    try:
        stream = library.ZstdDecompressor().stream_reader(data)
        payload = bytes(stream.read(MAX_BATCH_BYTES + 1))
    except library.ZstdError as error:
        raise InvalidInputError(f"the payload is not zstd data: {error}") from None
    _check_size(payload)
    return payload


def _check_size(payload: bytes) -> None:
    """Limit the memory that a small compressed message can require."""
    if len(payload) > MAX_BATCH_BYTES:
        raise InvalidInputError(f"the payload decompresses to more than {MAX_BATCH_BYTES} bytes")


def _zstandard() -> Any:
    try:
        import zstandard
    except ImportError as error:
        raise MissingExtraError(f"the algorithm zstd requires {error.name}", advice="Install headstream[zstd]") from None
    return zstandard
