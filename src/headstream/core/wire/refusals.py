"""Converts errors to the status that a server sends, and a status to the error that a client raises.

Both mappings are total. Existing clients create errors only from the number, so the body of an error response is empty for them.
For clients that logged in with the context "headstream" the body is JSON: {"kind": ..., "what": ..., "where": ..., "advice":
...}. The kind is the class of the error, and an error about unreadable messages also has the messages' partition and offsets.
Over HTTP this object is the member "error", in addition to the members that every client reads.
"""

from __future__ import annotations

from typing import Any, Final

from headstream import errors
from headstream.core.codec.buffer import BytesLike
from headstream.core.codec.json_text import decode_json, encode_json
from headstream.core.wire.statuses import Status, field_of_status, name_of_status
from headstream.errors import (
    AlreadyExistsError,
    AuthenticationError,
    ChecksumError,
    ClosedError,
    ConsumersLimitError,
    CorruptLogError,
    CorruptSendError,
    DecodeError,
    DiskFullError,
    GroupInUseError,
    GroupNotFoundError,
    HeaderError,
    HeadstreamError,
    InvalidInputError,
    LegalHoldError,
    LimitError,
    LogError,
    LogLockedError,
    NotFoundError,
    OffsetOutOfRangeError,
    PartitionClosedError,
    PartitionNotFoundError,
    PermissionDeniedError,
    ProducerFencedError,
    ProducersLimitError,
    RebalancedError,
    SequenceError,
    ServerError,
    ServerUnreachableError,
    StorageError,
    StreamNotFoundError,
    TopicNotFoundError,
)

_LOCATION: Final = ("partition", "from_offset", "until_offset")
"""The attributes of an error that locate unreadable messages."""

_CLASSES: Final[dict[type[HeadstreamError], tuple[int, ...]]] = {
    InvalidInputError: (
        *(4, 6, 43, 44, 45, 50, 80, 81, 82, 83, 84, 101, 209, 8000),
        *(1013, 1014, 1019, 2014, 2016, 2018, 4002, 4009, 4024, 4025, 4028, 4030, 4039, 4040, 4041, 4042, 4043, 4101, 5002, 5005),
    ),
    HeaderError: (4018, 4019),
    LimitError: (52, 55, 2015, 3009, 4017, 4022, 4023, Status.LIMIT_EXCEEDED),
    AuthenticationError: (30, 40, 42, 47, 53, 54, 73, 75, 77, 78, Status.INCOMPATIBLE_PROTOCOL),
    PermissionDeniedError: (41, 48, 49),
    NotFoundError: (20, 100, 3021, 4000, 5006),
    StreamNotFoundError: (1009, 1010),
    TopicNotFoundError: (2010, 2011),
    PartitionNotFoundError: (3007, 3008),
    GroupNotFoundError: (5000, 5003),
    AlreadyExistsError: (46, 51, 1011, 1012, 2012, 2013, 5001, 5004),
    ServerUnreachableError: (Status.SERVER_BUSY,),
    ClosedError: (8, 61, 63, 206),
    OffsetOutOfRangeError: (4100,),
    GroupInUseError: (Status.GROUP_IN_USE,),
    LegalHoldError: (Status.LEGAL_HOLD,),
    RebalancedError: (Status.REBALANCED, Status.CONSUMER_GROUP_PARTITION_NOT_OWNED),
    SequenceError: (Status.OUT_OF_SEQUENCE,),
    ProducerFencedError: (Status.PRODUCER_FENCED,),
    ConsumersLimitError: (Status.CONSUMERS_LIMIT,),
    ProducersLimitError: (Status.PRODUCERS_LIMIT,),
    LogLockedError: (Status.LOG_LOCKED,),
    DiskFullError: (Status.DISK_FULL,),
    PartitionClosedError: (Status.PARTITION_CLOSED,),
    CorruptLogError: (
        *range(4011, 4017),
        4020,
        4021,
        4026,
        4027,
        *range(6000, 6005),
        *range(7000, 7005),
        Status.CORRUPT_MESSAGES,
    ),
    StorageError: (
        *(1000, 1001, *range(1002, 1009), 1015, *range(2000, 2009), 2017, *range(3000, 3007), *range(3010, 3013), 3020),
        *(4001, 4003, 4004, 4005, 4006, 4007, 4008, 4010, 5007, 5008, 9000, *range(10000, 10013)),
    ),
}
_CLASS_OF_STATUS: Final = {status: kind for kind, statuses in _CLASSES.items() for status in statuses}

_STATUS_OF_CLASS: Final[dict[type[BaseException], int]] = {
    DecodeError: Status.INVALID_COMMAND,
    HeaderError: Status.INVALID_HEADER_VALUE,
    LimitError: Status.LIMIT_EXCEEDED,
    InvalidInputError: Status.INVALID_FORMAT,
    AuthenticationError: Status.UNAUTHENTICATED,
    PermissionDeniedError: Status.UNAUTHORIZED,
    StreamNotFoundError: Status.STREAM_NAME_NOT_FOUND,
    TopicNotFoundError: Status.TOPIC_NAME_NOT_FOUND,
    PartitionNotFoundError: Status.PARTITION_NOT_FOUND,
    GroupNotFoundError: Status.CONSUMER_GROUP_NAME_NOT_FOUND,
    NotFoundError: Status.RESOURCE_NOT_FOUND,
    AlreadyExistsError: Status.TOPIC_NAME_ALREADY_EXISTS,
    ClosedError: Status.DISCONNECTED,
    ServerUnreachableError: Status.DISCONNECTED,
    OffsetOutOfRangeError: Status.INVALID_OFFSET,
    GroupInUseError: Status.GROUP_IN_USE,
    LegalHoldError: Status.LEGAL_HOLD,
    RebalancedError: Status.REBALANCED,
    ConsumersLimitError: Status.CONSUMERS_LIMIT,
    ProducersLimitError: Status.PRODUCERS_LIMIT,
    ProducerFencedError: Status.PRODUCER_FENCED,
    SequenceError: Status.OUT_OF_SEQUENCE,
    LogLockedError: Status.LOG_LOCKED,
    DiskFullError: Status.DISK_FULL,
    PartitionClosedError: Status.PARTITION_CLOSED,
    ChecksumError: Status.INVALID_MESSAGE_CHECKSUM,
    CorruptSendError: Status.CORRUPT_MESSAGES,
    CorruptLogError: Status.CANNOT_READ_MESSAGE,
    StorageError: Status.CANNOT_SAVE_MESSAGES_TO_SEGMENT,
    LogError: Status.ERROR,
}
_NEAREST_STATUS: Final = {
    Status.LIMIT_EXCEEDED: Status.TOO_BIG_MESSAGE_PAYLOAD,
    Status.DISK_FULL: Status.CANNOT_SAVE_MESSAGES_TO_SEGMENT,
    Status.PARTITION_CLOSED: Status.CANNOT_APPEND_MESSAGE,
    Status.CORRUPT_MESSAGES: Status.CANNOT_READ_MESSAGE,
    Status.CONSUMERS_LIMIT: Status.CANNOT_CREATE_CONSUMER_OFFSETS_DIRECTORY,
    Status.SERVER_BUSY: Status.DISCONNECTED,  # clients reconnect, and retry the command once
    Status.LEGAL_HOLD: Status.UNAUTHORIZED,
}
"""Headstream's statuses -> the nearest status of existing clients; `error` if there is none."""

_KINDS: Final[dict[str, Any]] = {
    name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, HeadstreamError)
}
"""The errors that a server can name."""


def status_of(error: BaseException, *, is_extended: bool = False) -> int:
    """Return the status of a server's response for an error.

    Args:
        error: Any error. The status is the error's `status`, otherwise the status of its class, otherwise 1 (`error`).
        is_extended: Whether the client supports Headstream's own statuses.
    """
    status: int | None = error.status if isinstance(error, HeadstreamError) else None
    if status is None:
        known = (_STATUS_OF_CLASS[kind] for kind in type(error).__mro__ if kind in _STATUS_OF_CLASS)
        status = next(known, int(Status.ERROR))
    if status >= 20_000 and not is_extended:
        return (
            int(_NEAREST_STATUS.get(Status(status), Status.ERROR)) if status in Status.__members__.values() else int(Status.ERROR)
        )
    return int(status)


def refusal(status: int, what: str | None = None, *, where: str | None = None, advice: str | None = None) -> HeadstreamError:
    """Return the error for a status, with its attribute `status` set."""
    name = name_of_status(status)
    text = f"the server answered {status}, {name.replace('_', ' ')}" if what is None else what
    kind = _CLASS_OF_STATUS.get(status)
    error = ServerError(text, where=where, advice=advice) if kind is None else kind(text, where=where, advice=advice)
    error.status = int(status)
    return error


def encode_refusal(error: HeadstreamError) -> bytes:
    """Encode the body of an error response to a client that logged in with the context "headstream"."""
    return encode_json(_describe(error))


def decode_refusal(status: int, body: BytesLike) -> HeadstreamError:
    """Decode the error of a response; a body that is not from encode_refusal() is ignored, because the status is sufficient."""
    try:
        document: Any = decode_json(bytes(body)) if len(body) else None
    except DecodeError:
        document = None
    return _read(status, document)


def refusal_to_json(error: BaseException) -> dict[str, Any]:
    """Convert an error to the JSON object for HTTP: id, code, reason and field, and `error` for Headstream's client."""
    status = status_of(error, is_extended=True)
    if not isinstance(error, HeadstreamError):
        reason = "internal server error; see the server's log for details"
        return {"id": status, "code": name_of_status(status), "reason": reason, "field": field_of_status(status)}
    common = {"id": status, "code": name_of_status(status), "reason": str(error), "field": field_of_status(status)}
    return common | {"error": _describe(error)}


def refusal_from_json(document: Any) -> HeadstreamError | None:
    """Convert the JSON object of an HTTP response to an error, or None if it is not an error."""
    if not isinstance(document, dict) or type(document.get("id")) is not int or document["id"] <= 0:
        return None
    return _read(document["id"], document.get("error") or {"what": document.get("reason")})


def _describe(error: HeadstreamError) -> dict[str, Any]:
    described = {"kind": type(error).__name__, "what": error.what, "where": error.where, "advice": error.advice}
    return described | ({name: getattr(error, name) for name in _LOCATION} if isinstance(error, CorruptSendError) else {})


def _read(status: int, document: Any) -> HeadstreamError:
    if not isinstance(document, dict):
        return refusal(status)
    what, where, advice = (text if isinstance(text := document.get(name), str) else None for name in ("what", "where", "advice"))
    error = refusal(status, what, where=where, advice=advice)
    kind = _KINDS.get(str(document.get("kind")))
    if kind is None or what is None:
        return error
    place = {name: document.get(name) for name in _LOCATION}
    if issubclass(kind, CorruptSendError):
        if not all(type(number) is int for number in place.values()):
            return error
        error = kind(what, where=where, advice=advice, **place)
    elif kind.__init__ is HeadstreamError.__init__:
        error = kind(what, where=where, advice=advice)
    error.status = status
    return error
