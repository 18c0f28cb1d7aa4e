"""Down-conversion: the answer to a client whose Fetch is older than the stored messages, as KIP-82 has it.

A client that asks with an older version gets messages of the format it knows, each at its own offset: without headers, and in
magic 0 without timestamps. It does not learn of what is left out; the caller does. Compressed sets are unpacked.
"""

from __future__ import annotations

from typing import NamedTuple

from headstream.core.codec.buffer import BytesLike
from headstream.core.codec.kip82.headers import STRICT, TypedHeaders
from headstream.core.codec.kip82.message import down_convert
from headstream.core.codec.kip82.requests import FETCH, FetchedPartition, FetchResponse, magic_of
from headstream.core.codec.kip82.sets import decode_set, encode_set


class DownConverted(NamedTuple):
    """A converted response.

    Args:
        response: For the older client.
        lost: What each message lost: topic, partition, offset and the text.
    """

    response: FetchResponse
    lost: tuple[tuple[str, int, int, str], ...]


def down_convert_set(data: BytesLike, magic: int, *, layout: TypedHeaders = STRICT) -> tuple[bytes, list[tuple[int, str]]]:
    """Return a message set in an older format, and what its messages lost.

    Args:
        data: The set; messages of the format or older ones stay as they are, and one that is cut off is left out.
        magic: The newest format that the client knows, 0 or 1.
        layout: The layout of headers.

    Returns:
        The set, and offset and text of each loss.

    Raises:
        DecodeError: a complete message is invalid.
        MissingExtraError: the package of a compression is not installed.
    """
    converted, lost = [], list[tuple[int, str]]()
    for message in decode_set(data, layout=layout).messages:
        if message.magic > magic:
            message, dropped = down_convert(message, magic)
            lost += [(message.offset, text) for text in dropped]
        converted.append(message)
    return encode_set(converted, layout), lost


def down_convert_response(response: FetchResponse, api_version: int, *, layout: TypedHeaders = STRICT) -> DownConverted:
    """Return a response for a client that asked with an older version.

    Args:
        response: As stored.
        api_version: The version of the client's Fetch request.
        layout: The layout of headers.

    Raises:
        DecodeError: a complete message is invalid.
        InvalidInputError: the version does not exist.
    """
    magic = magic_of(FETCH, api_version)
    lost: list[tuple[str, int, int, str]] = []
    partitions: list[FetchedPartition] = []
    for each in response.partitions:
        data, dropped = (each.message_set, []) if magic == 2 else down_convert_set(each.message_set, magic, layout=layout)
        lost += [(each.topic, each.partition, offset, text) for offset, text in dropped]
        partitions.append(each._replace(message_set=data))
    throttle_ms = (response.throttle_ms or 0) if api_version >= 1 else None
    return DownConverted(FetchResponse(partitions=tuple(partitions), throttle_ms=throttle_ms), tuple(lost))
