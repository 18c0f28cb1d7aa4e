"""Arguments: parses topics, start positions, partitions, states and committers that users pass."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias, TypedDict

from headstream.client.consumer.listening import PartitionsCallback
from headstream.client.transports.transport import TopicNaming, Transport
from headstream.core.model.deliveries import Retry
from headstream.core.model.headers import HeadersInput
from headstream.core.model.identifiers import TopicName, parse_message_id
from headstream.core.model.message import parse_state
from headstream.core.model.partitioning import Partitioning, PartitioningKind
from headstream.core.model.polling import OffsetOwner, PollingStrategy
from headstream.core.model.quantities import parse_duration_us
from headstream.core.model.topology import Fsync, KafkaHeaders, Limits
from headstream.errors import InvalidInputError, InvalidOptionError, PartitionNotFoundError

Milliseconds: TypeAlias = float | timedelta
"""A duration: milliseconds or a timedelta."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class TopicOptionsInput(TypedDict, total=False):
    """Topic options by name, as in TopicOptions."""

    retention_us: int | timedelta | None
    retention_bytes: int | None
    compaction_delay_us: int | timedelta | None
    deduplication_count: int | None
    summary_headers: str | Iterable[str] | None
    deletion_grace_us: int | timedelta | None
    legal_hold: bool
    kafka_headers: KafkaHeaders | None


class ProducerOptions(TypedDict, total=False):
    """Keyword arguments of Client.producer()."""

    linger_ms: Milliseconds
    batch_bytes: int
    batch_count: int
    buffer_bytes: int
    delivery_timeout_ms: Milliseconds


class ConsumerOptions(TypedDict, total=False):
    """Keyword arguments of Client.consumer()."""

    group: str | None
    name: str | None
    partitions: Iterable[int] | None
    start: StartInput
    states: StatesInput
    where: str | None
    on_filter_error: str
    on_error: Retry | None
    dead_letter: str | TopicName | None
    mode: str
    lease: str | int | timedelta | None
    timeout_ms: float | timedelta | None
    session_timeout_ms: float | timedelta
    on_assigned: PartitionsCallback | None
    on_revoked: PartitionsCallback | None


StartInput = PollingStrategy | int | str | datetime | timedelta
"""Start position: an offset, `first`, `last`, a time (datetime or ISO 8601 string), an age (timedelta or a string such as
`-1h`), or a PollingStrategy."""

MessageIdInput = int | str | uuid.UUID
"""A message id: an unsigned 128-bit number or a UUID; 0 generates an id."""

PartitionInput = int | Partitioning | None
"""Target of a message: a partition number from 1 (in Kafka from 0), or a Partitioning; None hashes the key, or rotates
without a key."""

SendArguments: TypeAlias = tuple[
    bytes | bytearray | memoryview | None, bytes | None, HeadersInput | None, MessageIdInput, PartitionInput
]
"""The payload, key, headers, id and partition of a message to send."""

StatesInput = Iterable[str | int] | None
"""States by name (such as `available`) or code; None means all states."""


def topic_name(name: str | TopicName, transport: Transport | None = None) -> TopicName:
    """Parse `stream/topic`; InvalidInputError if invalid. Some transports (Kafka) also accept topic names without a slash."""
    if isinstance(name, TopicName):
        return name
    if not isinstance(name, str):
        raise InvalidInputError(f"{name!r} is not a topic", advice="Write stream/topic, for example shop/orders")
    if "/" not in name and isinstance(transport, TopicNaming):
        return transport.topic_name(name)
    return TopicName.parse(name)


def start_of(start: StartInput, now_us: int | None = None) -> PollingStrategy:
    """Return the polling strategy of a start position.

    Args:
        start: See StartInput. A datetime without a time zone is local time; an ISO string without a time zone is UTC.
        now_us: Microseconds since 1970 UTC; None reads the clock.
    """
    if isinstance(start, PollingStrategy):
        return start
    if isinstance(start, datetime):
        return _since(start.astimezone(UTC))
    if isinstance(start, timedelta) or (isinstance(start, str) and start.strip().startswith("-")):
        ago = start if isinstance(start, timedelta) else start.strip()[1:]
        ago_us = parse_duration_us(abs(ago) if isinstance(ago, timedelta) else ago)
        return PollingStrategy.timestamp(max((time.time_ns() // 1000 if now_us is None else now_us) - ago_us, 0))
    if isinstance(start, bool) or not isinstance(start, (int, str)):
        raise _no_start(start)
    if isinstance(start, str):
        try:
            when = datetime.fromisoformat(start.strip()) if not start.strip().isdecimal() else None
        except ValueError:
            when = None
        if when is not None:
            return _since(when if when.tzinfo is not None else when.replace(tzinfo=UTC))
    try:
        return PollingStrategy.parse(start)
    except InvalidInputError:
        raise _no_start(start) from None


def _since(when: datetime) -> PollingStrategy:
    if when < _EPOCH:
        raise _no_start(when.isoformat())
    return PollingStrategy.timestamp((when - _EPOCH) // _MICROSECOND)


def _no_start(start: object) -> InvalidInputError:
    return InvalidInputError(
        f"{start!r} is not a valid start position",
        advice="Use an offset; first, last or next; a time (2026-01-31T12:00:00Z or a datetime); or an age (-1h or a timedelta)",
    )


def message_id_of(message_id: MessageIdInput) -> int:
    """Return a message id as a number; InvalidInputError if it is neither an unsigned 128-bit number nor a UUID."""
    if isinstance(message_id, uuid.UUID):
        return int.from_bytes(message_id.bytes, "little")
    if isinstance(message_id, str):
        return parse_message_id(message_id)
    if type(message_id) is not int or not 0 <= message_id < 1 << 128:
        raise InvalidInputError(
            f"{message_id!r} is not a message id", advice="Pass an unsigned 128-bit number, a uuid.UUID or a UUID as a string"
        )
    return message_id


def choice_of(
    partition: int | Partitioning, key: bytes | None, topic: TopicName, numbers: range
) -> tuple[int | None, bytes | None]:
    """Return the partition of a message, and the key to hash if the partition is None. If both are None, partitions rotate.

    Raises:
        PartitionNotFoundError: the partition is not in `numbers`, the topic's partitions.
    """
    number: object = partition
    if isinstance(partition, Partitioning):
        if partition.kind is not PartitioningKind.PARTITION_ID:
            return None, partition.value or None
        number = int.from_bytes(partition.value, "little")
    if type(number) is not int:
        raise InvalidInputError(
            f"{partition!r} is not a partition",
            where=str(topic),
            advice=f"Pass a number, {numbers[0]} or higher, or an hs.Partitioning",
        )
    if number not in numbers:
        raise PartitionNotFoundError(
            f"topic {str(topic)!r} has no partition {number}", advice=f"Use a partition from {numbers[0]} to {numbers[-1]}"
        )
    return number, key


def committer_of(group: str | None, name: str | None) -> OffsetOwner | None:
    """Return the owner of committed offsets: a group, a single consumer, or None; InvalidOptionError if both are given."""
    if group is not None and name is not None:
        raise InvalidOptionError("a consumer must not have both a group and a name", advice="Set one of them")
    if group is not None:
        return OffsetOwner.group(group)
    return None if name is None else OffsetOwner.named(name)


def state_codes(states: StatesInput) -> frozenset[int] | None:
    """Return the state codes, or None for all states; InvalidInputError if a name is unknown or the list is empty."""
    if states is None:
        return None
    if isinstance(states, (str, int)):
        states = (states,)
    codes = frozenset(parse_state(state) if isinstance(state, str) else int(state) for state in states)
    if not codes:
        raise InvalidOptionError("states is empty", advice='Use states=("available",), or None for all')
    return codes


def limits_of(limits: str, topic: str) -> Limits:
    """Return the limits of a topic by their name."""
    try:
        return Limits(limits)
    except ValueError:
        raise InvalidOptionError(
            f"{limits!r} is not a valid value for limits", where=topic, advice=f"Use {' or '.join(Limits)}"
        ) from None


def fsync_of(fsync: str, topic: str) -> Fsync:
    """Return a topic's fsync policy by name."""
    try:
        return Fsync(fsync)
    except ValueError:
        raise InvalidOptionError(f"{fsync!r} is not an fsync policy", where=topic, advice=f"Use {', '.join(Fsync)}") from None
