"""All errors that Headstream raises, as a tree.

    HeadstreamError
    ├── InvalidInputError (also ValueError)      an argument or input is invalid
    │   ├── HeaderError                          a header's key, kind or value
    │   ├── InvalidUrlError                      a URL that connect() cannot use
    │   ├── InvalidOptionError                   an option or setting, by name
    │   └── LimitError                           valid in itself, but beyond a limit of the topic or dialect
    │       ├── ConsumersLimitError              a user has reached the limit of consumers and groups with stored offsets
    │       └── ProducersLimitError              a partition has reached its limit of remembered producers; retry later
    ├── DecodeError (also ValueError)            bytes that cannot be decoded: what, at, need, have
    ├── NotFoundError (also LookupError)
    │   ├── StreamNotFoundError
    │   ├── TopicNotFoundError
    │   ├── PartitionNotFoundError
    │   └── GroupNotFoundError
    ├── AlreadyExistsError                       a stream, topic or user with that name exists
    ├── ClosedError                              used while it is not open
    ├── AccessError                              a server denies access to this user
    │   ├── AuthenticationError                  not logged in: missing, wrong or expired credentials
    │   └── PermissionDeniedError                logged in, but without the permission
    ├── WaitTimeoutError (also TimeoutError)     a wait has timed out; the operation continues
    ├── ServerUnreachableError                   a server cannot be reached, or the connection to it broke
    │   └── OutcomeUnknownError                  the connection broke before the response: the request may have been executed
    ├── ServerError                              any other error status of a server
    ├── UnsupportedError                         an operation that this kind of log does not support
    ├── LegalHoldError                           a topic is under legal hold, so nothing is removed from it
    ├── GroupInUseError                          a consumer group has active readers, so it cannot be changed
    ├── InterceptorError                         an interceptor of a client raised an error
    ├── SerializerError                          the serializer cannot encode or decode a value
    ├── RebalancedError                          a consumer commits a partition that another member of its group owns
    │   └── LeaseLostError                       the lease of a shared message ended before the worker settled the message
    ├── SequenceError                            a numbered batch does not follow the previous batch
    │   └── ProducerFencedError                  a newer epoch of the batch's producer has begun
    ├── LogError                                 the embedded log on disk
    │   ├── NotALogError                         a directory that contains other files
    │   ├── LogVersionError                      written by a newer version of Headstream, or by a version that is too old
    │   ├── LogLockedError                       another process has the log open for writing
    │   ├── CorruptLogError                      data on disk that is inconsistent
    │   │   └── CorruptSendError                 messages that cannot be read, with their offsets
    │   │       └── ChecksumError                a payload does not match its checksum
    │   ├── StorageError                         the operating system refused a file operation
    │   │   ├── DiskFullError                    no space, or the user's quota is used up
    │   │   └── PartitionClosedError             a sync failed: no more appends until the log is opened again
    │   └── OffsetOutOfRangeError                the message at an offset was removed, or is not written yet
    ├── ReplicateError                           the Replicate pipeline
    │   ├── SchemaError                          a metadata message or schema that cannot be used
    │   │   └── SchemaChangeError                a change of the source's schema that a table cannot follow
    │   └── RowError                             one change that does not fit its schema or its table
    └── EnvironmentSetupError                    a requirement is missing on this machine
        ├── MissingExtraError                    an optional dependency, with the extra that installs it
        ├── JavaError                            Java is missing or too old
        └── JarsError                            the JVM's jars are missing and cannot be downloaded

Every message states the failure, its place, and advice. Any other exception that Headstream raises is a bug.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class HeadstreamError(Exception):
    """The base class of all of Headstream's errors.

    Args:
        what: The failure, as a sentence without a full stop.
        where: The file, topic, partition, offset or option to which the error applies.
        advice: The action that resolves the failure.
    """

    status: int | None = None
    """The status code, if a server sent the error or will send it to a client."""
    messages: Sequence[Any] = ()
    """The messages that a producer could not deliver, if known: Message values without offsets."""
    in_doubt: Sequence[Any] = ()
    """The messages that may have been stored; all other messages were not stored."""

    def __init__(self, what: str, *, where: str | None = None, advice: str | None = None) -> None:
        self.what, self.where, self.advice = what, where, advice
        super().__init__(what)

    def __str__(self) -> str:
        text = self.what if self.where is None else f"{self.what} ({self.where})"
        return text if self.advice is None else f"{text}. {self.advice}"

    def __reduce__(self) -> tuple[Any, ...]:  # pickled between processes (Spark workers, pools) with keyword arguments
        return self.__class__.__new__, (type(self), self.what), self.__dict__.copy()


class InvalidInputError(HeadstreamError, ValueError):
    """An argument or input is invalid."""


class HeaderError(InvalidInputError):
    """A header's key, kind or value is invalid, or the value does not have the requested kind."""


class InvalidUrlError(InvalidInputError):
    """connect() cannot use the URL."""


class InvalidOptionError(InvalidInputError):
    """An option or setting is unknown, contradictory or out of range."""


class LimitError(InvalidInputError):
    """A message is valid in itself but exceeds a limit of the topic or dialect."""


class ConsumersLimitError(LimitError):
    """A user has reached the server's limit of consumers and groups with stored offsets."""


class ProducersLimitError(LimitError):
    """A partition rejects a new producer, because its maximum number of producers are all recently active; retry later."""


class DecodeError(HeadstreamError, ValueError):
    """Bytes cannot be decoded.

    Args:
        what: The invalid field or violated rule.
        at: The byte position from the start of the input.
        need: Number of bytes that the field needs, or None if the length is not the problem.
        have: Number of available bytes, or None.
    """

    def __init__(
        self,
        what: str,
        at: int,
        need: int | None = None,
        have: int | None = None,
        *,
        where: str | None = None,
        advice: str | None = None,
    ) -> None:
        super().__init__(what, where=where, advice=advice)
        self.at, self.need, self.have = at, need, have

    def __str__(self) -> str:
        need = "" if self.need is None else f": {self.need} bytes needed"
        have = "" if self.need is None or self.have is None else f", {self.have} available"
        text = f"{self.what} at byte {self.at}{need}{have}" + ("" if self.where is None else f" ({self.where})")
        return text if self.advice is None else f"{text}. {self.advice}"


class NotFoundError(HeadstreamError, LookupError):
    """A named object does not exist."""


class StreamNotFoundError(NotFoundError):
    """There is no stream with that name or id."""


class TopicNotFoundError(NotFoundError):
    """There is no topic with that name or id."""


class PartitionNotFoundError(NotFoundError):
    """The topic has no partition with that number."""


class GroupNotFoundError(NotFoundError):
    """There is no consumer group with that name: no committed offsets and no active readers."""


class AlreadyExistsError(HeadstreamError):
    """The name is taken, for example by a stream, a topic or a user."""


class ClosedError(HeadstreamError):
    """An object, such as a log, a producer or a consumer, was used while it was not open."""


class AccessError(HeadstreamError):
    """A server denies access to this user."""


class AuthenticationError(AccessError):
    """The client is not logged in: credentials are missing, wrong or expired, or the user is inactive."""


class PermissionDeniedError(AccessError):
    """The logged-in user does not have the required permission."""


class WaitTimeoutError(HeadstreamError, TimeoutError):
    """A wait has timed out; the operation continues."""


class ServerUnreachableError(HeadstreamError):
    """No server was reached, or the connection broke; the request had no effect unless this is an OutcomeUnknownError."""


class OutcomeUnknownError(ServerUnreachableError):
    """The connection to a server broke before the response arrived; the request may have been executed."""


class ServerError(HeadstreamError):
    """An error of the server for which there is no specific exception class; `status` is the error code."""


class UnsupportedError(HeadstreamError):
    """The log at this URL does not support the operation; for example, Kafka has no message states."""


class GroupInUseError(HeadstreamError):
    """A consumer group has active readers, so other clients cannot change its offsets."""


class LegalHoldError(HeadstreamError):
    """A topic is under legal hold, so its messages cannot be removed."""


class InterceptorError(HeadstreamError):
    """An interceptor raised an error, which is the `__cause__`. No message is lost."""


class SerializerError(HeadstreamError):
    """A serializer cannot encode or decode a value. No message is lost."""


class RebalancedError(HeadstreamError):
    """A consumer cannot commit an offset, because another member of its group now owns the partition."""


class LeaseLostError(RebalancedError):
    """The lease of a message ended before its worker settled or extended it. Nothing is recorded for the message."""


class SequenceError(HeadstreamError):
    """A numbered batch was not appended, because it does not follow its producer's previous batch."""


class ProducerFencedError(SequenceError):
    """A numbered batch was not appended, because its producer has ended the batch's epoch."""


class LogError(HeadstreamError):
    """The base class of errors of an embedded log on disk."""


class NotALogError(LogError):
    """The directory contains files that do not belong to a log."""


class LogVersionError(LogError):
    """A log or a pipeline's ledger was written by a newer version of Headstream, or by a version that is too old."""


class LogLockedError(LogError):
    """Another process has this log open for writing."""


class CorruptLogError(LogError):
    """The log's data on disk is inconsistent."""


class CorruptSendError(CorruptLogError):
    """Messages are damaged or missing; all messages before and after them can be read.

    Args:
        what: Damaged part.
        from_offset: The first unreadable offset.
        until_offset: One past the last unreadable offset, where a reader can continue.
        partition: The partition's number if the error answers a client's request; 0 if it concerns a file.
    """

    def __init__(
        self,
        what: str,
        *,
        from_offset: int,
        until_offset: int,
        where: str | None = None,
        advice: str | None = None,
        partition: int = 0,
    ) -> None:
        super().__init__(what, where=where, advice=advice)
        self.partition, self.from_offset, self.until_offset = partition, from_offset, until_offset


class ChecksumError(CorruptSendError):
    """A message's payload does not match its checksum: bytes changed in memory or in transit."""


class StorageError(LogError):
    """The operating system refused a file operation."""


class DiskFullError(StorageError):
    """The file system is full, or the user's quota is used up. No part of the write was committed."""


class PartitionClosedError(StorageError):
    """A sync of a partition failed, so its state on the disk is unknown. The partition rejects appends until it is recovered."""


class OffsetOutOfRangeError(LogError):
    """The message at an offset was removed, for example by retention, or has not been written yet."""


class ReplicateError(HeadstreamError):
    """The base class of errors of the Replicate pipeline."""


class SchemaError(ReplicateError):
    """A metadata message or schema cannot be used."""


class SchemaChangeError(SchemaError):
    """The source's schema changed in a way that a table cannot follow. Changes of that schema are parked.

    Args:
        stops: Whether the settings require the pipeline to stop.
    """

    def __init__(self, what: str, *, where: str | None = None, advice: str | None = None, stops: bool = False) -> None:
        super().__init__(what, where=where, advice=advice)
        self.stops = stops


class RowError(ReplicateError):
    """A change does not fit its schema or its table."""


class EnvironmentSetupError(HeadstreamError):
    """A requirement is missing on this machine."""


class MissingExtraError(EnvironmentSetupError):
    """An optional dependency is not installed."""


class JavaError(EnvironmentSetupError):
    """Java is missing or too old."""


class JarsError(EnvironmentSetupError):
    """The JVM's jars are missing and cannot be downloaded."""
