"""Encoding: encodes and checks single messages before they are batched, so that errors can name the message."""

from __future__ import annotations

import os
from typing import Final

from headstream.client.arguments import MessageIdInput, message_id_of
from headstream.core.codec.batch.stored.stamp import check_sent
from headstream.core.model.headers import Headers, HeadersInput
from headstream.core.model.reserved import KEY_HEADER, NULL_HEADER, RESERVED_PREFIX, check_unreserved
from headstream.core.model.topology import MAX_BATCH_BYTES, Limits, Topic
from headstream.errors import InvalidInputError, LimitError

_KEY_HEADER: Final = Headers({KEY_HEADER: b""}).as_bytes()[:-4]
"""The header of a key, up to the key's length."""

_NULL_HEADER: Final = Headers({NULL_HEADER: True}).as_bytes()
_RESERVED: Final = RESERVED_PREFIX.encode()
_MAX_ID: Final = (1 << 128) - 1
_PLAINLY_SMALL: Final = 1 << 20
"""A payload from 1 byte to this size, without headers, is within every limit."""


class SentEncoder:
    """Encodes messages for one topic.

    Args:
        gives_ids: Whether to assign a random id to a message without an id, because the topic deduplicates by id.
        keeps_reserved: Whether headers with reserved names are accepted, as in messages copied from another topic or log.
    """

    def __init__(self, topic: Topic, *, gives_ids: bool, keeps_reserved: bool = False) -> None:
        self._encode_headers = Headers.as_bytes if keeps_reserved else _encode_unreserved
        self._name = f"{topic.stream}/{topic.name}"
        self._is_wide = topic.limits is Limits.WIDE
        self._needs_key = topic.compaction_delay_us is not None
        self._gives_ids = gives_ids

    def encode(
        self, payload: bytes | bytearray | memoryview | None, key: bytes | None, headers: HeadersInput | None, id: MessageIdInput
    ) -> tuple[bytes, int]:
        """Check a message against the topic's limits; return the encoded message and its encoded header size."""
        if not isinstance(payload, (bytes, type(None))):
            payload = _as_bytes(payload)
        if not isinstance(key, (bytes, type(None))):
            raise InvalidInputError(f"a key must be bytes, not {type(key).__name__}", advice='Encode it, as in key=b"42"')
        if key is None and self._needs_key:
            raise LimitError(
                "the message has no key",
                where=self._name,
                advice="The topic keeps the last message of each key, so each message needs a key: pass key=, or disable "
                "compaction",
            )
        if type(id) is not int:
            id = message_id_of(id)
        if not 0 <= id <= _MAX_ID:
            raise InvalidInputError(f"message id {id} is not an unsigned 128-bit number")
        if not id and self._gives_ids:
            id = int.from_bytes(os.urandom(16), "little")
        # The same bytes as codec.binary.encode_sent(), without creating a Message.
        block = self._encode_headers(Headers(headers)) if headers else b""
        if payload is None:
            payload, block = b"", _NULL_HEADER + block
        if key is not None:
            block = b"".join((_KEY_HEADER, len(key).to_bytes(4, "little"), key, block))
        message = b"".join(
            (id.to_bytes(16, "little"), len(block).to_bytes(4, "little"), block, len(payload).to_bytes(4, "little"), payload)
        )
        if block or not 0 < len(payload) <= _PLAINLY_SMALL:
            self._check(message)
        return message, len(block)

    def _check(self, message: bytes) -> None:
        """Raise an error for a message that would make the log reject the entire batch; the error names the message."""
        if len(message) > MAX_BATCH_BYTES:
            raise LimitError(
                f"the message has {len(message)} bytes",
                where=self._name,
                advice=f"Send at most {MAX_BATCH_BYTES} bytes: store a big payload elsewhere, and send its location",
            )
        check_sent(message, self._is_wide)


def _encode_unreserved(headers: Headers) -> bytes:
    """Encode a sender's headers; reserved names are rejected."""
    block = headers.as_bytes()
    if _RESERVED in block:  # rarely present, and one search of the bytes is faster than a check of each name
        check_unreserved(headers)
    return block


def _as_bytes(payload: object) -> bytes | None:
    if payload is None or isinstance(payload, bytes):
        return payload
    if isinstance(payload, (bytearray, memoryview)):
        return bytes(payload)
    raise InvalidInputError(
        f"a payload must be bytes or None, not {type(payload).__name__}", advice='Encode it, as in "text".encode()'
    )
