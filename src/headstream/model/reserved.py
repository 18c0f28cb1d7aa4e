"""Reserved headers: what a message has that a dialect has no field for. Names that begin with `hs.` are Headstream's own.

    name             kind      where                       what it is
    hs.key           raw       binary, JSON: the first     the message's key
    hs.null          bool      binary, JSON: next or first true: the payload is null, not empty
    hs.timestamp     int64     anywhere                    a time that the sender gave; the one that senders may write
    hs.id            raw       KIP-82: at the beginning    the message's id, 16 little-endian bytes; in Kafka a UUID as text
    hs.state         int16     KIP-82: next                its state, where it is not available; in Kafka its name
    hs.appended      int64     KIP-82, Kafka: next         when the log appended it, where milliseconds do not hold that
    hs.checksum      int64     KIP-82, Kafka: next         its checksum, where it is not that of its payload
    hs.kinds         raw       Kafka: the last            the kinds of the other headers (codec/kafka/kinds.py)
    hs.origin.*      several   messages set aside          topic, partition, offset and timestamp they came from
    hs.schema_id     string    messages set aside          the schema that a message waits for
    hs.reason        string    messages set aside          why a message was given up, or is delayed

Times are microseconds since 1970 UTC. Whoever sends gets a name of these refused; what was stored, received or converted
keeps whatever headers it has.
"""

from __future__ import annotations

from typing import Final

from headstream.errors import HeaderError
from headstream.model.headers import Headers

__all__ = [
    "APPENDED_HEADER",
    "CHECKSUM_HEADER",
    "ID_HEADER",
    "KEY_HEADER",
    "KINDS_HEADER",
    "NULL_HEADER",
    "ORIGIN_PREFIX",
    "REASON_HEADER",
    "RESERVED_PREFIX",
    "SCHEMA_ID_HEADER",
    "STATE_HEADER",
    "TIMESTAMP_HEADER",
    "check_unreserved",
    "is_reserved",
]

RESERVED_PREFIX: Final = "hs."
KEY_HEADER: Final = "hs.key"
NULL_HEADER: Final = "hs.null"
TIMESTAMP_HEADER: Final = "hs.timestamp"
ID_HEADER: Final = "hs.id"
STATE_HEADER: Final = "hs.state"
APPENDED_HEADER: Final = "hs.appended"
CHECKSUM_HEADER: Final = "hs.checksum"
KINDS_HEADER: Final = "hs.kinds"
ORIGIN_PREFIX: Final = "hs.origin."
SCHEMA_ID_HEADER: Final = "hs.schema_id"
REASON_HEADER: Final = "hs.reason"


def is_reserved(name: str) -> bool:
    """Return whether a sender may not give a header this name."""
    return name.startswith(RESERVED_PREFIX) and name != TIMESTAMP_HEADER


def check_unreserved(headers: Headers) -> Headers:
    """Return a sender's headers, none of which has a reserved name.

    Args:
        headers: What the sender gave.

    Raises:
        HeaderError: a name is reserved.
    """
    for name in headers.keys():  # noqa: SIM118
        if is_reserved(name):
            raise HeaderError(
                f"the header {name!r} is reserved",
                advice="Names that begin with 'hs.' are Headstream's own; give a key as key=, a null payload as None",
            )
    return headers
