"""Requests and responses of Produce and Fetch as values. requests.py encodes and decodes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

PROPOSED_VERSION: Final = 4
"""The version that the proposal assigns to requests and responses with typed headers."""


class RequestHead(NamedTuple):
    """A request header; its response has the same version and correlation id."""

    api_version: int = PROPOSED_VERSION
    correlation_id: int = 0
    client_id: str | None = None


class ProducePartition(NamedTuple):
    """A message set for one partition; decode_set() reads it."""

    topic: str
    partition: int
    message_set: bytes


class ProducedPartition(NamedTuple):
    """The result for one partition. `timestamp_ms` is -1 if the log does not set the time, and None in versions 0 and 1."""

    topic: str
    partition: int
    error: int
    base_offset: int
    timestamp_ms: int | None = -1


class FetchPartition(NamedTuple):
    """The start offset of a fetch in one partition, and the maximum number of bytes."""

    topic: str
    partition: int
    offset: int
    max_bytes: int


class FetchedPartition(NamedTuple):
    """A message set of one partition; the last message can be truncated."""

    topic: str
    partition: int
    error: int
    high_watermark: int
    message_set: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceRequest:
    """A request to append messages.

    Args:
        acks: Which brokers acknowledge the request: -1 all replicas, 1 the leader, 0 no broker (no response).
        timeout_ms: Maximum wait for replicas, milliseconds.
    """

    partitions: tuple[ProducePartition, ...]
    acks: int = -1
    timeout_ms: int = 30_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceResponse:
    """The results of an append by topic; the throttle time is None in version 0."""

    partitions: tuple[ProducedPartition, ...]
    throttle_ms: int | None = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequest:
    """A request for messages.

    Args:
        replica_id: -1 for a consumer.
        max_wait_ms: Maximum wait for `min_bytes`, milliseconds.
        min_bytes: Minimum number of bytes in the response, unless `max_wait_ms` expires.
        max_bytes: Maximum size of the entire response; None before version 3.
    """

    partitions: tuple[FetchPartition, ...]
    replica_id: int = -1
    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int | None = 50 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResponse:
    """Fetched message sets by topic; the throttle time is None in version 0."""

    partitions: tuple[FetchedPartition, ...]
    throttle_ms: int | None = 0
