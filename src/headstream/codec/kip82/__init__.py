"""KIP-82 as it was proposed: a message with typed headers (message.py), its header block (headers.py), sets (sets.py)."""

from __future__ import annotations

from headstream.codec.kip82.carrying import from_message, to_message
from headstream.codec.kip82.headers import LENIENT, STRICT, HeaderLimits, TypedHeaders
from headstream.codec.kip82.message import Kip82Message, decode_message, down_convert, encode_message
from headstream.codec.kip82.sets import MessageSet, decode_set, encode_set, wrap

__all__ = [
    "LENIENT",
    "STRICT",
    "HeaderLimits",
    "Kip82Message",
    "MessageSet",
    "TypedHeaders",
    "decode_message",
    "decode_set",
    "down_convert",
    "encode_message",
    "encode_set",
    "from_message",
    "to_message",
    "wrap",
]
