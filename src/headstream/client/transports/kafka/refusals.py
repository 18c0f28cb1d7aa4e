"""Maps Kafka's errors to Headstream's errors."""

from __future__ import annotations

from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from headstream.errors import (
    AlreadyExistsError,
    AuthenticationError,
    GroupInUseError,
    GroupNotFoundError,
    HeadstreamError,
    InvalidInputError,
    InvalidOptionError,
    LimitError,
    OffsetOutOfRangeError,
    PartitionNotFoundError,
    PermissionDeniedError,
    RebalancedError,
    ServerError,
    ServerUnreachableError,
    TopicNotFoundError,
    UnsupportedError,
)

_codes: Final[Any] = KafkaError
_KINDS: Final[dict[type[HeadstreamError], tuple[str, ...]]] = {
    TopicNotFoundError: ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "UNKNOWN_TOPIC_ID"),
    PartitionNotFoundError: ("_UNKNOWN_PARTITION",),
    AlreadyExistsError: ("TOPIC_ALREADY_EXISTS",),
    InvalidOptionError: (
        "INVALID_PARTITIONS", "INVALID_REPLICATION_FACTOR", "INVALID_CONFIG", "POLICY_VIOLATION", "INVALID_REQUEST",
        "_INVALID_ARG", "INVALID_REPLICA_ASSIGNMENT",
    ),
    InvalidInputError: ("TOPIC_EXCEPTION", "INVALID_GROUP_ID"),
    LimitError: ("MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "INVALID_RECORD", "OFFSET_METADATA_TOO_LARGE"),
    PermissionDeniedError: ("TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED"),
    AuthenticationError: ("_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "UNSUPPORTED_SASL_MECHANISM", "ILLEGAL_SASL_STATE"),
    ServerUnreachableError: (
        "_TRANSPORT", "_ALL_BROKERS_DOWN", "_TIMED_OUT", "_TIMED_OUT_QUEUE", "_MSG_TIMED_OUT", "_RESOLVE", "_SSL",
        "REQUEST_TIMED_OUT", "_PURGE_QUEUE", "BROKER_NOT_AVAILABLE", "NETWORK_EXCEPTION",
    ),
    RebalancedError: ("ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID", "_ASSIGNMENT_LOST", "_MAX_POLL_EXCEEDED"),
    GroupInUseError: ("NON_EMPTY_GROUP", "GROUP_SUBSCRIBED_TO_TOPIC"),
    GroupNotFoundError: ("GROUP_ID_NOT_FOUND",),
    OffsetOutOfRangeError: ("OFFSET_OUT_OF_RANGE", "_AUTO_OFFSET_RESET"),
    UnsupportedError: ("UNSUPPORTED_VERSION", "_UNSUPPORTED_FEATURE"),
}  # fmt: skip
_CLASSES: Final = {getattr(_codes, name): kind for kind, names in _KINDS.items() for name in names if hasattr(_codes, name)}

TRANSIENT: Final = frozenset(
    getattr(_codes, name)
    for name in (
        "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "LEADER_NOT_AVAILABLE",
        "NOT_LEADER_FOR_PARTITION", "_TRANSPORT", "_WAIT_COORD", "REQUEST_TIMED_OUT", "NOT_CONTROLLER", "FENCED_LEADER_EPOCH",
        "UNKNOWN_LEADER_EPOCH", "REPLICA_NOT_AVAILABLE", "REBALANCE_IN_PROGRESS", "_TIMED_OUT", "_ALL_BROKERS_DOWN",
        "_LEADER_NOT_AVAILABLE", "NETWORK_EXCEPTION", "BROKER_NOT_AVAILABLE",
    )
    if hasattr(_codes, name)
)  # fmt: skip
"""Codes of transient errors: a leader or coordinator is being elected, or a broker is unavailable."""

_ADVICE: Final[dict[type[HeadstreamError], str]] = {
    TopicNotFoundError: "List the topics with log.topics(), or create the topic first",
    AuthenticationError: "Check user, password, kafka.security.protocol and kafka.sasl.mechanism",
    PermissionDeniedError: "Ask the cluster's administrator for the required ACL",
    ServerUnreachableError: "Check the brokers' addresses, and that they are running",
    LimitError: "Raise the topic's max.message.bytes, or send smaller messages",
    RebalancedError: "The partition was assigned to another member, which receives the uncommitted messages again",
    GroupInUseError: "Stop the group's members first",
}


def error_of(error: Any) -> Any:
    """Return the KafkaError of a confluent-kafka exception, or the error itself."""
    return error.args[0] if isinstance(error, KafkaException) else error


def refused(error: Any, where: str, what: str = "Kafka refused the request") -> HeadstreamError:
    """Map a Kafka error to a HeadstreamError: the operation `what` failed at `where`."""
    cause = error_of(error)
    kind = _CLASSES.get(cause.code(), ServerError)
    if kind is TopicNotFoundError:
        return kind(f"there is no topic {where!r}", advice=_ADVICE[kind])
    return kind(f"{what}: {cause.str()} ({cause.name()})", where=where, advice=_ADVICE.get(kind))


def unsupported(what: str, advice: str) -> UnsupportedError:
    """Return the error for an operation that Kafka does not support, with the reason and an alternative."""
    return UnsupportedError(what, where="kafka://", advice=advice)
