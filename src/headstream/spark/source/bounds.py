"""Parses the bounds of a read (words, offsets or times) and resolves them to offsets.

startingOffsets               earliest | latest | {"shop/orders": {"1": 23, "2": -2}}       -2 earliest, -1 latest
startingTimestamp             1690000000000: each partition's first message at or after this time; milliseconds since 1970 UTC
startingOffsetsByTimestamp    {"shop/orders": {"1": 1690000000000, "2": 1690000000000}}
startingOffsetsByTimestampStrategy    error | latest: for a partition without a message at or after the time
endingOffsets, endingTimestamp, endingOffsetsByTimestamp    likewise; the read ends before the message, or at the partition's end
                              if there is no such message
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from headstream.errors import InvalidOptionError
from headstream.spark.source.offsets import Available, TopicPartition, read_positions
from headstream.spark.source.subscription import Subscription

EARLIEST: Final = -2
LATEST: Final = -1
"""Codes of the first offset and of the end, in offsets by partition."""

_STRATEGY: Final = "startingOffsetsByTimestampStrategy"
_STARTING: Final = ("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp")
ENDING_OPTIONS: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
"""The options that set the end of a read."""
BOUND_OPTIONS: Final = (*_STARTING, _STRATEGY, *ENDING_OPTIONS)
"""All options that set the start or the end of a read."""
_MAX_MS: Final = (1 << 63) // 1000 - 1
"""The latest time, milliseconds, whose microseconds fit 63 bits."""


@dataclass(frozen=True, slots=True)
class Times:
    """The first message at or after a time, in each partition.

    Args:
        everywhere_us: The time for every partition, microseconds since 1970 UTC; None if the times differ.
        by_partition_us: The time for each partition, if the times differ.
        or_latest: Whether a partition without such a message begins at its end; otherwise an error is raised.
    """

    everywhere_us: int | None
    by_partition_us: Mapping[TopicPartition, int]
    or_latest: bool


@dataclass(frozen=True, slots=True)
class Bound:
    """The start or end of a read.

    Args:
        at: `earliest` or `latest`, an offset for each partition (-2 earliest, -1 latest), or times.
    """

    option: str
    at: Literal["earliest", "latest"] | Mapping[TopicPartition, int] | Times


def parse_starting(given: Mapping[str, str], subscription: Subscription) -> Bound:
    """Return the start of a read; `earliest` by default. Option names are in lower case."""
    option = _one_of(given, _STARTING)
    strategy = given.get(_STRATEGY.lower(), "error").strip().lower()
    if strategy not in ("error", "latest"):
        raise InvalidOptionError(f"{_STRATEGY}={strategy} is not a valid strategy", advice="Use error or latest")
    if option == "startingOffsets":
        if _STRATEGY.lower() in given:
            raise InvalidOptionError(
                f"{_STRATEGY} requires a start time", advice="Set startingTimestamp or startingOffsetsByTimestamp"
            )
        return _parse_offsets(option, given.get(option.lower(), "earliest"), subscription)
    return _parse_times(option, given[option.lower()], subscription, or_latest=strategy == "latest")


def parse_ending(given: Mapping[str, str], subscription: Subscription) -> Bound:
    """Return the end of a batch read; `latest` by default. Arguments and errors are as for parse_starting()."""
    option = _one_of(given, ENDING_OPTIONS)
    if option != "endingOffsets":
        return _parse_times(option, given[option.lower()], subscription, or_latest=True)
    bound = _parse_offsets(option, given.get(option.lower(), "latest"), subscription)
    if bound.at == "earliest":
        raise InvalidOptionError("endingOffsets=earliest leaves nothing to read", advice="Use latest, or offsets by partition")
    if isinstance(bound.at, Mapping) and EARLIEST in bound.at.values():
        partition = next(partition for partition, offset in bound.at.items() if offset == EARLIEST)
        raise InvalidOptionError(f"endingOffsets: -2 leaves nothing to read in {partition}", advice=f"Use {LATEST} (latest)")
    return bound


def _one_of(given: Mapping[str, str], options: tuple[str, ...]) -> str:
    given_names = [option for option in options if option.lower() in given]
    if len(given_names) > 1:
        raise InvalidOptionError(f"{given_names[0]} and {given_names[1]} contradict each other", advice="Set one of them")
    return given_names[0] if given_names else options[0]


def _parse_offsets(option: str, text: str, subscription: Subscription) -> Bound:
    word = text.strip().lower()
    if word == "earliest" or word == "latest":
        return Bound(option, "earliest" if word == "earliest" else "latest")
    advice = 'Use earliest, latest or offsets by partition, for example {"shop/orders": {"1": 23, "2": -2}}'
    offsets = _parse_partitions(option, text, subscription, advice)
    for partition, offset in offsets.items():
        if offset < EARLIEST:
            raise InvalidOptionError(f"{option}: {offset} is not an offset of {partition}", advice=advice)
    return Bound(option, offsets)


def _parse_times(option: str, text: str, subscription: Subscription, *, or_latest: bool) -> Bound:
    if option.endswith("Timestamp") and not option.endswith("ByTimestamp"):
        time_ms = int(text) if text.strip().isdecimal() else -1
        if not 0 <= time_ms <= _MAX_MS:
            raise InvalidOptionError(
                f"{option}={text} is not a time", advice="Write milliseconds since 1970 UTC, for example 1690000000000"
            )
        return Bound(option, Times(time_ms * 1000, {}, or_latest))
    advice = 'Write milliseconds since 1970 UTC by partition, for example {"shop/orders": {"1": 1690000000000}}'
    times = _parse_partitions(option, text, subscription, advice)
    for partition, time_ms in times.items():
        if not 0 <= time_ms <= _MAX_MS:
            raise InvalidOptionError(f"{option}: {time_ms} is not a valid time for {partition}", advice=advice)
    return Bound(option, Times(None, {partition: time_ms * 1000 for partition, time_ms in times.items()}, or_latest))


def _parse_partitions(option: str, text: str, subscription: Subscription, advice: str) -> dict[TopicPartition, int]:
    try:
        partitions = read_positions(json.loads(text))
    except (ValueError, AttributeError, TypeError):
        raise InvalidOptionError(f"{option} cannot be read: {text!r}", advice=advice) from None
    for partition in partitions:
        if not subscription.has(partition):
            raise InvalidOptionError(
                f"{option} names {partition}, which is not in {subscription.option}", advice="Add the partition to that option"
            )
    return partitions


def resolve(
    bound: Bound, available: Mapping[TopicPartition, Available], find: Callable[[TopicPartition, int], int]
) -> dict[TopicPartition, int]:
    """Return the offset of a bound in each partition.

    Args:
        find: Returns the first offset of a partition at or after a time (microseconds), or the partition's end.

    Raises:
        InvalidOptionError: the option omits a partition, names a missing partition, or has a time after the last message.
    """
    if isinstance(bound.at, str):
        is_first = bound.at == "earliest"
        return {partition: holds.first_offset if is_first else holds.end_offset for partition, holds in available.items()}
    if isinstance(bound.at, Times):
        by_partition = bound.at.by_partition_us
        if bound.at.everywhere_us is not None:
            by_partition = dict.fromkeys(available, bound.at.everywhere_us)
        _check_partitions(bound.option, by_partition, available, "Name every partition")
        offsets = {partition: find(partition, by_partition[partition]) for partition in available}
        for partition, offset in offsets.items():
            if offset >= available[partition].end_offset and not bound.at.or_latest:
                raise InvalidOptionError(
                    f"{bound.option}: {partition} has no message with a time of {by_partition[partition] // 1000} ms or later",
                    advice=f"{_STRATEGY}=latest starts at the end of such partitions",
                )
        return offsets
    _check_partitions(bound.option, bound.at, available, "Name every partition; -2 is the earliest offset, -1 the latest")
    meaning = {EARLIEST: 0, LATEST: 1}
    return {
        partition: holds[meaning[value]] if (value := bound.at[partition]) < 0 else value
        for partition, holds in available.items()
    }


def _check_partitions(
    option: str, named: Mapping[TopicPartition, int], available: Mapping[TopicPartition, Available], advice: str
) -> None:
    for partition in named:
        if partition not in available:
            raise InvalidOptionError(
                f"{option} names {partition}, which does not exist",
                advice=f"The subscribed partitions are {', '.join(map(str, sorted(available)))}",
            )
    missing = [str(partition) for partition in sorted(available) if partition not in named]
    if missing:
        raise InvalidOptionError(f"{option} omits {', '.join(missing)}", advice=advice)
