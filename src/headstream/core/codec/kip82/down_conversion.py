"""Down-conversion, as in KIP-82: responses to clients whose Fetch version is older than the format of the stored messages.

Such a client receives messages in the format that it supports, at their original offsets: without headers, and in magic 0 also
without timestamps. The losses are returned to the caller, because the response cannot show them. Compressed sets are
decompressed.
"""

from __future__ import annotations

from typing import NamedTuple

from headstream.core.codec.buffer import BytesLike
from headstream.core.codec.kip82.headers import STRICT, TypedHeaders
from headstream.core.codec.kip82.message import down_convert
from headstream.core.codec.kip82.request_values import FetchedPartition, FetchResponse
from headstream.core.codec.kip82.requests import FETCH, magic_of
from headstream.core.codec.kip82.sets import decode_set, encode_set


class DownConverted(NamedTuple):
    """A response for the older client; each loss has a topic, partition, offset and description."""

    response: FetchResponse
    lost: tuple[tuple[str, int, int, str], ...]


def down_convert_set(data: BytesLike, magic: int, *, layout: TypedHeaders = STRICT) -> tuple[bytes, list[tuple[int, str]]]:
    """Convert a message set to magic 0 or 1; also return the offset and description of each loss.

    Messages that have the requested format or an older format are unchanged. A truncated message is omitted.
    """
    converted, lost = [], list[tuple[int, str]]()
    for message in decode_set(data, layout=layout).messages:
        if message.magic > magic:
            message, dropped = down_convert(message, magic)
            lost += [(message.offset, text) for text in dropped]
        converted.append(message)
    return encode_set(converted, layout), lost


def down_convert_response(response: FetchResponse, api_version: int, *, layout: TypedHeaders = STRICT) -> DownConverted:
    """Convert a stored response for a client that requested an older version of Fetch."""
    magic = magic_of(FETCH, api_version)
    lost: list[tuple[str, int, int, str]] = []
    partitions: list[FetchedPartition] = []
    for each in response.partitions:
        data, dropped = (each.message_set, []) if magic == 2 else down_convert_set(each.message_set, magic, layout=layout)
        lost += [(each.topic, each.partition, offset, text) for offset, text in dropped]
        partitions.append(each._replace(message_set=data))
    throttle_ms = (response.throttle_ms or 0) if api_version >= 1 else None
    return DownConverted(FetchResponse(partitions=tuple(partitions), throttle_ms=throttle_ms), tuple(lost))
