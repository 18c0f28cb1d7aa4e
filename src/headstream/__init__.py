"""Message streaming with typed headers, from producer to lakehouse.

import headstream as hs

log = hs.connect("file:///var/lib/shop")
with log.producer("shop/orders") as producer:
    producer.send(b"...", key=b"42", headers={"attempt": hs.uint8(3), "source": "web"})
"""

from __future__ import annotations

from headstream.errors import DecodeError, HeaderError, HeadstreamError
from headstream.model.constructors import (
    bool_,
    char,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    int128,
    null,
    raw,
    string,
    uint8,
    uint16,
    uint32,
    uint64,
    uint128,
)
from headstream.model.header_values import HeaderKind, HeaderValue
from headstream.model.headers import Headers
from headstream.model.message import Message, MessageState, checksum
from headstream.version import __version__

bool = bool_  # the kind's one spelling, `hs.bool`; left out of __all__ so that a star import keeps the built-in

__all__ = [
    "DecodeError",
    "HeaderError",
    "HeaderKind",
    "HeaderValue",
    "Headers",
    "HeadstreamError",
    "Message",
    "MessageState",
    "__version__",
    "char",
    "checksum",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "int128",
    "null",
    "raw",
    "string",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "uint128",
]
