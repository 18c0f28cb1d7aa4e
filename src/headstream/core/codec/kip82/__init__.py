"""KIP-82 as proposed: message.py, header blocks (headers.py), sets.py, requests.py, and down_conversion.py for older clients."""

from __future__ import annotations

from headstream.core.codec.kip82.down_conversion import down_convert_response, down_convert_set
from headstream.core.codec.kip82.headers import LENIENT, STRICT, HeaderLimits, TypedHeaders
from headstream.core.codec.kip82.message import Kip82Message, decode_message, down_convert, encode_message
from headstream.core.codec.kip82.request_values import (
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ProducedPartition,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    RequestHead,
)
from headstream.core.codec.kip82.requests import FETCH, PRODUCE, decode_request, decode_response, encode_request, encode_response
from headstream.core.codec.kip82.reserved_fields import from_message, to_message
from headstream.core.codec.kip82.sets import MessageSet, decode_set, encode_set, wrap

__all__ = [
    "FETCH", "LENIENT", "PRODUCE", "STRICT", "FetchPartition", "FetchRequest", "FetchResponse", "FetchedPartition",
    "HeaderLimits", "Kip82Message", "MessageSet", "ProducePartition", "ProduceRequest", "ProduceResponse", "ProducedPartition",
    "RequestHead", "TypedHeaders", "decode_message", "decode_request", "decode_response", "decode_set", "down_convert",
    "down_convert_response", "down_convert_set", "encode_message", "encode_request", "encode_response", "encode_set",
    "from_message", "to_message", "wrap",
]  # fmt: skip
