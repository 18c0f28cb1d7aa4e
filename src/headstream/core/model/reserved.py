"""Reserved headers: attributes of a message for which a dialect has no field. Names with `hs.` are Headstream's own.

    name             kind      where                       meaning
    hs.key           raw       binary, JSON: the first     the message's key
    hs.null          bool      binary, JSON: next or first  true: the payload is null, not empty
    hs.timestamp     int64     anywhere                    a time set by the sender
    hs.id            raw       KIP-82: at the beginning    the message's id, 16 little-endian bytes; in Kafka a UUID as text
    hs.state         int16     KIP-82: next                the message's state, unless available; in Kafka the state's name
    hs.appended      int64     KIP-82, Kafka: next         time of the append, where milliseconds lose precision
    hs.checksum      int64     KIP-82, Kafka: next         the message's checksum, if the payload does not match the checksum
    hs.kinds         raw       Kafka: the last            the kinds of the other headers (core/codec/kafka/kinds.py)
    hs.compression   string    anywhere                    how the payload is compressed (interceptors/compression.py)
    hs.encryption    string    anywhere                    how the payload is encrypted (interceptors/encryption.py)
    hs.mirror        string    anywhere                    the logs from which a message was mirrored (mirror/hops.py)
    hs.origin.*      several   parked and dead-lettered    the original's topic, partition, offset and timestamp; its group
    hs.schema_id     string    parked and dead-lettered    the schema that a parked message waits for
    hs.reason        string    parked and dead-lettered    why the message is dead-lettered or parked
    hs.reason_code   string    dead letters of groups      the reason as a DeadLetterReason (core/model/deliveries.py)
    hs.attempts      int32     dead letters of groups      number of attempts to process the message
    hs.redrive       string    redriven messages           the dead letter: `stream/topic/partition/offset`
    hs.redrives      int32     redriven messages           number of redrives of the message
    hs.first_error   string    dead letters of groups      the first error; hs.reason is the last error
    hs.first_failed  int64     dead letters of groups      the time of the first error
    hs.last_failed   int64     dead letters of groups      the time of the last error

Times are microseconds since 1970 UTC. Senders can write hs.timestamp, hs.compression, hs.encryption and hs.mirror; sending any
other of these headers raises an error. Stored, received or converted messages retain all their headers.
"""

from __future__ import annotations

from typing import Final

from headstream.core.model.headers import Headers
from headstream.errors import HeaderError

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
REASON_CODE_HEADER: Final = "hs.reason_code"
REDRIVE_HEADER: Final = "hs.redrive"
REDRIVES_HEADER: Final = "hs.redrives"
ATTEMPTS_HEADER: Final = "hs.attempts"
FIRST_ERROR_HEADER: Final = "hs.first_error"
FIRST_FAILED_HEADER: Final = "hs.first_failed"
LAST_FAILED_HEADER: Final = "hs.last_failed"
COMPRESSION_HEADER: Final = "hs.compression"
ENCRYPTION_HEADER: Final = "hs.encryption"
MIRROR_HEADER: Final = "hs.mirror"
_SENDABLE: Final = frozenset((TIMESTAMP_HEADER, COMPRESSION_HEADER, ENCRYPTION_HEADER, MIRROR_HEADER))
"""Reserved names that a sender, its interceptors or a mirror write."""


def is_reserved(name: str) -> bool:
    """Return whether a header name is reserved for the log, so that senders cannot write the header."""
    return name.startswith(RESERVED_PREFIX) and name not in _SENDABLE


def check_unreserved(headers: Headers) -> Headers:
    """Return a sender's headers; HeaderError if a name is reserved."""
    for name in headers.keys():  # noqa: SIM118
        if is_reserved(name):
            raise HeaderError(
                f"the header {name!r} is reserved",
                advice="Names that begin with 'hs.' are Headstream's own; pass a key as key=, and a null payload as payload=None",
            )
    return headers
