"""Kafka's error codes, and the code for each Headstream error."""

from __future__ import annotations

import enum
from typing import Final

from headstream import errors
from headstream.errors import HeadstreamError


class ErrorCode(enum.IntEnum):
    """The error codes in this server's responses, with Kafka's names."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    COORDINATOR_LOAD_IN_PROGRESS = 14
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    INVALID_PRODUCER_EPOCH = 47
    SECURITY_DISABLED = 54
    KAFKA_STORAGE_ERROR = 56
    SASL_AUTHENTICATION_FAILED = 58
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    MEMBER_ID_REQUIRED = 79
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    INVALID_RECORD = 87
    THROTTLING_QUOTA_EXCEEDED = 89
    UNKNOWN_TOPIC_ID = 100


class ProtocolError(HeadstreamError):
    """The error of a request that is answered with a given error code."""

    def __init__(self, fault: ErrorCode, what: str) -> None:
        super().__init__(what)
        self.fault = fault


_FAULTS: Final[tuple[tuple[type[HeadstreamError], ErrorCode], ...]] = (
    (errors.TopicNotFoundError, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (errors.StreamNotFoundError, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (errors.PartitionNotFoundError, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (errors.AlreadyExistsError, ErrorCode.TOPIC_ALREADY_EXISTS),
    (errors.ProducerFencedError, ErrorCode.INVALID_PRODUCER_EPOCH),
    (errors.SequenceError, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    (errors.ConsumersLimitError, ErrorCode.POLICY_VIOLATION),
    (errors.ProducersLimitError, ErrorCode.POLICY_VIOLATION),
    (errors.LegalHoldError, ErrorCode.POLICY_VIOLATION),
    (errors.LimitError, ErrorCode.INVALID_RECORD),
    (errors.HeaderError, ErrorCode.INVALID_RECORD),
    (errors.DecodeError, ErrorCode.CORRUPT_MESSAGE),
    (errors.OffsetOutOfRangeError, ErrorCode.OFFSET_OUT_OF_RANGE),
    (errors.CorruptSendError, ErrorCode.CORRUPT_MESSAGE),
    (errors.StorageError, ErrorCode.KAFKA_STORAGE_ERROR),
    (errors.LogError, ErrorCode.KAFKA_STORAGE_ERROR),
    (errors.PermissionDeniedError, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    (errors.AuthenticationError, ErrorCode.SASL_AUTHENTICATION_FAILED),
    (errors.ServerUnreachableError, ErrorCode.THROTTLING_QUOTA_EXCEEDED),
    (errors.InvalidInputError, ErrorCode.INVALID_REQUEST),
)


def fault_of(error: HeadstreamError) -> ErrorCode:
    """Return the code of an error."""
    if isinstance(error, ProtocolError):
        return error.fault
    return next((fault for kind, fault in _FAULTS if isinstance(error, kind)), ErrorCode.UNKNOWN_SERVER_ERROR)
