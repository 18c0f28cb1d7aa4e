"""Bounds: where a read begins and ends, in words, by offsets or by times; parsing them, and what they come to.

startingOffsets               earliest | latest | {"shop/orders": {"1": 23, "2": -2}}       -2 earliest, -1 latest
startingTimestamp             1690000000000: the first message of that time or later, everywhere; milliseconds since 1970 UTC
startingOffsetsByTimestamp    {"shop/orders": {"1": 1690000000000, "2": 1690000000000}}
startingOffsetsByTimestampStrategy    error | latest: what the two above do in a partition that has no message that new
endingOffsets, endingTimestamp, endingOffsetsByTimestamp    the same; the message found is the first that is not read any
                              more, and where none is that new everything is
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from headstream.errors import InvalidOptionError
from headstream.spark.offsets import Available, Place, read_positions
from headstream.spark.subscription import Subscription

__all__ = ["BOUND_OPTIONS", "EARLIEST", "ENDING_OPTIONS", "LATEST", "Bound", "Times", "parse_ending", "parse_starting", "resolve"]

EARLIEST: Final = -2
LATEST: Final = -1
"""What stands for the first offset that is there, and for one past the last, in offsets by partition."""

_STRATEGY: Final = "startingOffsetsByTimestampStrategy"
_STARTING: Final = ("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp")
ENDING_OPTIONS: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
"""The options that say where a read ends."""
BOUND_OPTIONS: Final = (*_STARTING, _STRATEGY, *ENDING_OPTIONS)
"""All options of this file."""
_MAX_MS: Final = (1 << 63) // 1000 - 1
"""The latest time whose microseconds fit 63 bits."""


@dataclass(frozen=True, slots=True)
class Times:
    """The first message of a time or later, in each partition.

    Args:
        everywhere_us: The time for every partition, microseconds since 1970 UTC; None where they are told apart.
        by_place_us: The time for each partition, where they are told apart.
        or_latest: Whether a partition without a message that new is taken at its end; otherwise it is an error.
    """

    everywhere_us: int | None
    by_place_us: Mapping[Place, int]
    or_latest: bool


@dataclass(frozen=True, slots=True)
class Bound:
    """Where a read begins, or ends.

    Args:
        option: The option that says it, for errors.
        at: A word, an offset for each partition (-2 the earliest, -1 the latest), or times.
    """

    option: str
    at: Literal["earliest", "latest"] | Mapping[Place, int] | Times


def parse_starting(given: Mapping[str, str], subscription: Subscription) -> Bound:
    """Return where a read begins; `earliest` where nothing is said.

    Args:
        given: The options, their names in lower case.
        subscription: What is read.

    Raises:
        InvalidOptionError: options contradict each other, or one cannot be read.
    """
    option = _one_of(given, _STARTING)
    strategy = given.get(_STRATEGY.lower(), "error").strip().lower()
    if strategy not in ("error", "latest"):
        raise InvalidOptionError(f"{_STRATEGY}={strategy} is no strategy", advice="Use error or latest")
    if option == "startingOffsets":
        if _STRATEGY.lower() in given:
            raise InvalidOptionError(
                f"{_STRATEGY} needs a time to start from", advice="Give startingTimestamp or startingOffsetsByTimestamp"
            )
        return _parse_offsets(option, given.get(option.lower(), "earliest"), subscription)
    return _parse_times(option, given[option.lower()], subscription, or_latest=strategy == "latest")


def parse_ending(given: Mapping[str, str], subscription: Subscription) -> Bound:
    """Return where a batch read ends; `latest` where nothing is said. Arguments and errors are those of parse_starting()."""
    option = _one_of(given, ENDING_OPTIONS)
    if option != "endingOffsets":
        return _parse_times(option, given[option.lower()], subscription, or_latest=True)
    bound = _parse_offsets(option, given.get(option.lower(), "latest"), subscription)
    if bound.at == "earliest":
        raise InvalidOptionError("endingOffsets=earliest leaves nothing to read", advice="Use latest, or offsets by partition")
    if isinstance(bound.at, Mapping) and EARLIEST in bound.at.values():
        place = next(place for place, offset in bound.at.items() if offset == EARLIEST)
        raise InvalidOptionError(f"endingOffsets: -2 leaves nothing to read of {place}", advice=f"{LATEST} is the latest")
    return bound


def _one_of(given: Mapping[str, str], options: tuple[str, ...]) -> str:
    said = [option for option in options if option.lower() in given]
    if len(said) > 1:
        raise InvalidOptionError(f"{said[0]} and {said[1]} contradict each other", advice="Give one of them")
    return said[0] if said else options[0]


def _parse_offsets(option: str, text: str, subscription: Subscription) -> Bound:
    word = text.strip().lower()
    if word == "earliest" or word == "latest":
        return Bound(option, "earliest" if word == "earliest" else "latest")
    advice = 'Use earliest, latest or offsets by partition, as {"shop/orders": {"1": 23, "2": -2}}'
    offsets = _parse_places(option, text, subscription, advice)
    for place, offset in offsets.items():
        if offset < EARLIEST:
            raise InvalidOptionError(f"{option}: {offset} is no offset of {place}", advice=advice)
    return Bound(option, offsets)


def _parse_times(option: str, text: str, subscription: Subscription, *, or_latest: bool) -> Bound:
    if option.endswith("Timestamp") and not option.endswith("ByTimestamp"):
        time_ms = int(text) if text.strip().isdecimal() else -1
        if not 0 <= time_ms <= _MAX_MS:
            raise InvalidOptionError(f"{option}={text} is no time", advice="Write milliseconds since 1970 UTC, as 1690000000000")
        return Bound(option, Times(time_ms * 1000, {}, or_latest))
    advice = 'Write milliseconds since 1970 UTC by partition, as {"shop/orders": {"1": 1690000000000}}'
    times = _parse_places(option, text, subscription, advice)
    for place, time_ms in times.items():
        if not 0 <= time_ms <= _MAX_MS:
            raise InvalidOptionError(f"{option}: {time_ms} is no time for {place}", advice=advice)
    return Bound(option, Times(None, {place: time_ms * 1000 for place, time_ms in times.items()}, or_latest))


def _parse_places(option: str, text: str, subscription: Subscription, advice: str) -> dict[Place, int]:
    try:
        places = read_positions(json.loads(text))
    except (ValueError, AttributeError, TypeError):
        raise InvalidOptionError(f"{option} cannot be read: {text!r}", advice=advice) from None
    for place in places:
        if not subscription.has(place):
            raise InvalidOptionError(f"{option} names {place}, which {subscription.option} does not", advice="Add it there")
    return places


def resolve(bound: Bound, available: Mapping[Place, Available], find: Callable[[Place, int], int]) -> dict[Place, int]:
    """Return the offset that a bound means in each partition.

    Args:
        bound: What an option says.
        available: What each partition holds now.
        find: Returns the first offset of a partition of a time (microseconds) or later, or where it ends.

    Raises:
        InvalidOptionError: the option leaves a partition out, names one that is not there, or gives a time that is too new.
    """
    if isinstance(bound.at, str):
        is_first = bound.at == "earliest"
        return {place: holds.first_offset if is_first else holds.end_offset for place, holds in available.items()}
    if isinstance(bound.at, Times):
        by_place = bound.at.by_place_us
        if bound.at.everywhere_us is not None:
            by_place = dict.fromkeys(available, bound.at.everywhere_us)
        _check_places(bound.option, by_place, available, "Name every partition")
        offsets = {place: find(place, by_place[place]) for place in available}
        for place, offset in offsets.items():
            if offset >= available[place].end_offset and not bound.at.or_latest:
                raise InvalidOptionError(
                    f"{bound.option}: {place} has no message of {by_place[place] // 1000} ms or later",
                    advice=f"{_STRATEGY}=latest starts at the end of such partitions",
                )
        return offsets
    _check_places(bound.option, bound.at, available, "Name every partition; -2 is its earliest, -1 its latest offset")
    meaning = {EARLIEST: 0, LATEST: 1}
    return {place: holds[meaning[value]] if (value := bound.at[place]) < 0 else value for place, holds in available.items()}


def _check_places(option: str, named: Mapping[Place, int], available: Mapping[Place, Available], advice: str) -> None:
    for place in named:
        if place not in available:
            raise InvalidOptionError(
                f"{option} names {place}, which does not exist",
                advice=f"Partitions that are read: {', '.join(map(str, sorted(available)))}",
            )
    missing = [str(place) for place in sorted(available) if place not in named]
    if missing:
        raise InvalidOptionError(f"{option} leaves out {', '.join(missing)}", advice=advice)
