"""The dialect `replicate` of codec/conversion: a Qlik Replicate envelope, whose headers are a map of strings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headstream.core.codec.buffer import BytesLike
from headstream.core.codec.conversion.dialects import Dialect, only, register
from headstream.core.codec.conversion.fields import Capabilities
from headstream.core.codec.conversion.values import fit_string
from headstream.core.model.headers import Headers
from headstream.core.model.message import Message
from headstream.errors import DecodeError, InvalidInputError
from headstream.replicate.codec.envelope import decode_envelope, encode_envelope


def _write(messages: Sequence[Message]) -> bytes:
    message = only(messages, "replicate")
    if message.payload is None:
        raise InvalidInputError("a null payload is not a Replicate envelope", where="payload")
    try:
        envelope = decode_envelope(message.payload)
    except DecodeError as error:
        raise InvalidInputError(f"the payload is not a Replicate envelope: {error.what}", where="payload") from error
    headers = {key: value.as_string() for key, value in message.headers.items()}
    return encode_envelope(replace(envelope, headers=headers or None))


def _read(data: BytesLike) -> Sequence[Message]:
    envelope = decode_envelope(bytes(data))
    bare = encode_envelope(replace(envelope, headers=None))
    return [Message(payload=bare, headers=Headers(envelope.headers or {}))]


register(Dialect(Capabilities("replicate", fit_string, repeats=False, stored=frozenset(), reserved=None), _write, _read))
