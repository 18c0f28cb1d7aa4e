"""Every error Headstream raises, as one tree.

    HeadstreamError
    ├── InvalidInputError (also ValueError)      something the caller gave cannot be used
    │   ├── HeaderError                          a header's key, kind or value
    │   ├── InvalidUrlError                      a URL that connect() cannot use
    │   ├── InvalidOptionError                   an option or setting, by name
    │   └── LimitError                           legal in itself, but beyond what this topic or dialect takes
    │       └── ProducersLimitError              a partition remembers no more producers now; later it does
    ├── DecodeError (also ValueError)            bytes that are not what they should be: what, at, need, have
    ├── NotFoundError (also LookupError)
    │   ├── StreamNotFoundError
    │   ├── TopicNotFoundError
    │   ├── PartitionNotFoundError
    │   └── GroupNotFoundError
    ├── AlreadyExistsError                       a stream or topic of that name is there
    ├── ClosedError                              used after close()
    ├── AccessError                              what a server does not let this user do
    │   ├── AuthenticationError                  not logged in: no, wrong or expired credentials
    │   └── PermissionDeniedError                logged in, but without the right to do this
    ├── WaitTimeoutError (also TimeoutError)     a wait has ended before what was waited for; it goes on
    ├── ServerUnreachableError                   a server cannot be reached, or the connection to it broke
    │   └── OutcomeUnknownError                  it broke before the answer: what was asked for may have been done
    ├── ServerError                              any other refusal of a server, by its status
    ├── GroupInUseError                          a consumer group is being read for, so it cannot be changed
    ├── RebalancedError                          a consumer commits where another member of its group reads now
    ├── SequenceError                            a numbered batch does not follow the one before it
    │   └── ProducerFencedError                  a newer epoch of its producer has begun
    ├── LogError                                 the embedded log on disk
    │   ├── NotALogError                         a directory with something else in it
    │   ├── LogVersionError                      written by a newer Headstream, or by one too old
    │   ├── LogLockedError                       another process is its writer
    │   ├── CorruptLogError                      bytes on disk that contradict each other
    │   │   └── CorruptSendError                 messages that cannot be read, by their offsets
    │   │       └── ChecksumError                a payload is not the one its checksum was made of
    │   ├── StorageError                         the operating system refused a file operation
    │   │   ├── DiskFullError                    no room, or the user's quota is used up
    │   │   └── PartitionClosedError             a sync failed: no more appends until the log is opened again
    │   └── OffsetOutOfRangeError                an offset that retention has dropped, or that was never written
    ├── ReplicateError                           the Replicate pipeline
    │   ├── SchemaError                          a metadata message or schema that cannot be used
    │   │   └── SchemaChangeError                a change of the source's schema that a table does not follow
    │   └── RowError                             one change that does not fit its schema or its table
    └── EnvironmentSetupError                    this machine lacks something
        ├── MissingExtraError                    an optional dependency, by the extra that brings it
        ├── JavaError                            no Java, or one that is too old
        └── JarsError                            the JVM's jars could not be had

Every message says what went wrong, where, and what to do about it. Any other exception out of
Headstream is a bug.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = [
    "AccessError",
    "AlreadyExistsError",
    "AuthenticationError",
    "ChecksumError",
    "ClosedError",
    "CorruptLogError",
    "CorruptSendError",
    "DecodeError",
    "DiskFullError",
    "EnvironmentSetupError",
    "GroupInUseError",
    "GroupNotFoundError",
    "HeaderError",
    "HeadstreamError",
    "InvalidInputError",
    "InvalidOptionError",
    "InvalidUrlError",
    "JarsError",
    "JavaError",
    "LimitError",
    "LogError",
    "LogLockedError",
    "LogVersionError",
    "MissingExtraError",
    "NotALogError",
    "NotFoundError",
    "OffsetOutOfRangeError",
    "OutcomeUnknownError",
    "PartitionClosedError",
    "PartitionNotFoundError",
    "PermissionDeniedError",
    "ProducerFencedError",
    "ProducersLimitError",
    "RebalancedError",
    "ReplicateError",
    "RowError",
    "SchemaChangeError",
    "SchemaError",
    "SequenceError",
    "ServerError",
    "ServerUnreachableError",
    "StorageError",
    "StreamNotFoundError",
    "TopicNotFoundError",
    "WaitTimeoutError",
]


class HeadstreamError(Exception):
    """The root of everything Headstream raises.

    Args:
        what: What went wrong, as a sentence without a full stop.
        where: The file, topic, partition, offset or option it is about.
        advice: What to do about it.
    """

    status: int | None = None
    """The number by which a server says it, where it came from one or is meant for a client of one."""

    messages: Sequence[Any] = ()
    """The messages that a producer could not deliver, where it says so: Message values without offsets."""

    in_doubt: Sequence[Any] = ()
    """Those of them that may be stored or not; all others are not."""

    def __init__(self, what: str, *, where: str | None = None, advice: str | None = None) -> None:
        self.what = what
        self.where = where
        self.advice = advice
        super().__init__(what)

    def __str__(self) -> str:
        text = self.what if self.where is None else f"{self.what} ({self.where})"
        return text if self.advice is None else f"{text}. {self.advice}"

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors cross process borders (Spark workers, worker pools), keyword arguments included.
        return _rebuild, (type(self), self.what, self.__dict__.copy())


def _rebuild(kind: type[HeadstreamError], what: str, attributes: dict[str, Any]) -> HeadstreamError:
    error = kind.__new__(kind, what)
    Exception.__init__(error, what)
    error.__dict__.update(attributes)
    return error


class InvalidInputError(HeadstreamError, ValueError):
    """Something the caller gave cannot be used."""


class HeaderError(InvalidInputError):
    """A header's key, kind or value is not legal, or not of the kind asked for."""


class InvalidUrlError(InvalidInputError):
    """A URL that connect() cannot use."""


class InvalidOptionError(InvalidInputError):
    """An option or setting that is unknown, contradictory or out of range."""


class LimitError(InvalidInputError):
    """A message that is legal in itself but beyond what this topic or dialect takes."""


class ProducersLimitError(LimitError):
    """A partition remembers as many producers as it may, all of which have sent lately: it takes no other one now."""


class DecodeError(HeadstreamError, ValueError):
    """Bytes that are not what they should be.

    Args:
        what: The field or rule that is broken.
        at: The byte position, counted from the start of the input.
        need: How many bytes the field needs, or None where that is not the point.
        have: How many bytes were there, or None.
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
        self.at = at
        self.need = need
        self.have = have

    def __str__(self) -> str:
        text = f"{self.what} at byte {self.at}"
        if self.need is not None:
            text += f": {self.need} bytes needed"
            if self.have is not None:
                text += f", {self.have} there"
        if self.where is not None:
            text += f" ({self.where})"
        return text if self.advice is None else f"{text}. {self.advice}"


class NotFoundError(HeadstreamError, LookupError):
    """Something that was named does not exist."""


class StreamNotFoundError(NotFoundError):
    """No stream of that name or id."""


class TopicNotFoundError(NotFoundError):
    """No topic of that name or id."""


class PartitionNotFoundError(NotFoundError):
    """No partition of that number."""


class GroupNotFoundError(NotFoundError):
    """No consumer group of that name: none has committed anything, and none is reading."""


class AlreadyExistsError(HeadstreamError):
    """A stream or topic of that name is there already."""


class ClosedError(HeadstreamError):
    """A log, producer or consumer was used after it was closed."""


class AccessError(HeadstreamError):
    """Something that a server does not let this user do."""


class AuthenticationError(AccessError):
    """Nobody is logged in: there are no credentials, or they are wrong, expired or of a user who is inactive."""


class PermissionDeniedError(AccessError):
    """The user who is logged in has no right to do this."""


class WaitTimeoutError(HeadstreamError, TimeoutError):
    """The time of a wait is over; what was waited for may still come."""


class ServerUnreachableError(HeadstreamError):
    """A server cannot be reached, or the connection to it broke; nothing was done unless the error is of the kind below."""


class OutcomeUnknownError(ServerUnreachableError):
    """The connection to a server broke before its answer came: what was asked for may have been done, or not."""


class ServerError(HeadstreamError):
    """A refusal of a server that no other error stands for; `status` is its number."""


class GroupInUseError(HeadstreamError):
    """A consumer group is being read for, so that its offsets are not for others to change."""


class RebalancedError(HeadstreamError):
    """A consumer commits in a partition that another member of its group has by now; nothing is committed there."""


class SequenceError(HeadstreamError):
    """A numbered batch does not follow the one before it from its producer; it was not appended."""


class ProducerFencedError(SequenceError):
    """A numbered batch is of an epoch that its producer has ended; it was not appended."""


class LogError(HeadstreamError):
    """The embedded log on disk."""


class NotALogError(LogError):
    """A directory that holds something other than a log."""


class LogVersionError(LogError):
    """A log, or a pipeline's ledger, written by a newer Headstream, or by one too old for it to be read as it is."""


class LogLockedError(LogError):
    """Another process is the writer of this log."""


class CorruptLogError(LogError):
    """Bytes on disk that contradict each other."""


class CorruptSendError(CorruptLogError):
    """Messages whose bytes are not those that were written, or are gone; all before and behind them can be read.

    Args:
        what: What is damaged.
        from_offset: The first offset that cannot be read.
        until_offset: One past the last one: where a reader may go on.
        where: The file, and the bytes of it.
        advice: What to do about it.
        partition: The partition's number, where a client asked for them; 0 where a file was read.
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
        self.partition = partition
        self.from_offset = from_offset
        self.until_offset = until_offset


class ChecksumError(CorruptSendError):
    """A message's payload is not the one that its checksum was made of: bytes changed in memory, or on their way."""


class StorageError(LogError):
    """The operating system refused a file operation."""


class DiskFullError(StorageError):
    """There is no room for what was to be written, or the user's quota is used up; nothing of it was committed."""


class PartitionClosedError(StorageError):
    """A sync of a partition failed, so that nobody knows what is on the disk: it takes no more until it is recovered."""


class OffsetOutOfRangeError(LogError):
    """An offset that retention has dropped, or that was never written."""


class ReplicateError(HeadstreamError):
    """The Replicate pipeline."""


class SchemaError(ReplicateError):
    """A metadata message or schema that cannot be used."""


class SchemaChangeError(SchemaError):
    """The source's schema changed in a way that a table does not follow: the changes of that schema wait.

    Args:
        what: What changed.
        where: The table.
        advice: What to do about it.
        stops: Whether the settings say that the pipeline must stop.
    """

    def __init__(self, what: str, *, where: str | None = None, advice: str | None = None, stops: bool = False) -> None:
        super().__init__(what, where=where, advice=advice)
        self.stops = stops


class RowError(ReplicateError):
    """One change that does not fit its schema or its table."""


class EnvironmentSetupError(HeadstreamError):
    """This machine lacks something that was asked for."""


class MissingExtraError(EnvironmentSetupError):
    """An optional dependency is not installed."""


class JavaError(EnvironmentSetupError):
    """There is no Java, or it is too old."""


class JarsError(EnvironmentSetupError):
    """The JVM's jars could not be had."""
