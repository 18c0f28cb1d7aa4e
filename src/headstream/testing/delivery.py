"""Simulated deliveries of source messages: reordered, repeated, delayed or split into batches.

All functions are pure: the result depends only on the arguments. Only `delay` reads the messages. The functions can be
combined: `split(repeat(shuffle(messages, seed=1), seed=2, fraction=0.1), 7, seed=3)`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from random import Random
from typing import Literal, TypeVar

from headstream.errors import InvalidInputError
from headstream.testing.source_capture import SourceMessage

_Item = TypeVar("_Item")


def shuffle(messages: Iterable[_Item], *, seed: int, window: int | None = None) -> list[_Item]:
    """Return the messages in random order.

    Args:
        seed: The same seed produces the same order.
        window: Maximum distance between two messages that can be swapped, from 0; None for any order.

    Raises:
        InvalidInputError: the window is negative.
    """
    items, random = list(messages), Random(seed)
    if window is None:
        random.shuffle(items)
        return items
    if window < 0:
        raise InvalidInputError(f"window must be at least 0, or None for any order, not {window}")
    # Two messages are swapped only if their random shifts differ by more than their distance.
    places = [place + random.random() * (window + 1) for place in range(len(items))]
    return [items[place] for place in sorted(range(len(items)), key=places.__getitem__)]


def repeat(messages: Iterable[_Item], *, seed: int, fraction: float = 0.1) -> list[_Item]:
    """Return the messages in order, with some messages repeated at random later positions.

    Args:
        seed: The same seed repeats the same messages.
        fraction: The share of repeated messages, 0 to 1.

    Raises:
        InvalidInputError: the fraction is out of range.
    """
    if not 0 <= fraction <= 1:
        raise InvalidInputError(f"fraction must be 0 to 1, not {fraction}")
    items, random = list(messages), Random(seed)
    placed: list[tuple[float, _Item]] = []
    for place, item in enumerate(items):
        placed.append((place, item))
        if random.random() < fraction:
            placed.append((place + (len(items) - place) * random.random(), item))
    placed.sort(key=lambda pair: pair[0])
    return [item for _, item in placed]


def split(messages: Iterable[_Item], count: int, *, seed: int | None = None) -> list[list[_Item]]:
    """Split the messages into batches, in order.

    Args:
        count: Number of batches, from 1; some can be empty.
        seed: Seed of random batch sizes; None for batches whose sizes differ by at most one.

    Raises:
        InvalidInputError: the count is below 1.
    """
    if count < 1:
        raise InvalidInputError(f"count must be at least 1, not {count}")
    items = list(messages)
    if seed is None:
        cuts = [len(items) * number // count for number in range(count + 1)]
    else:
        random = Random(seed)
        cuts = [0, *sorted(int(random.random() * (len(items) + 1)) for _ in range(count - 1)), len(items)]
    return [items[start:end] for start, end in itertools.pairwise(cuts)]


def delay(
    messages: Iterable[SourceMessage], table: str, *, by: int | None = None, role: Literal["data", "metadata"] | None = None
) -> list[SourceMessage]:
    """Return the messages in an order in which one table's messages are delayed.

    Args:
        table: `schema.table`.
        by: Number of other messages by which each of the table's messages is delayed, from 0; None delays them to the end.
        role: Delay only the table's `data` or only its `metadata`; None delays both.

    Raises:
        InvalidInputError: the count is negative.
    """
    if by is not None and by < 0:
        raise InvalidInputError(f"by must be at least 0, or None for the end, not {by}")
    items = list(messages)
    distance = len(items) if by is None else by
    held = [message.table == table and role in (None, message.role) for message in items]
    places = [place + distance if late else place for place, late in enumerate(held)]
    # At the same place, a delayed message follows other messages, so that `by` messages precede it.
    return [items[place] for place in sorted(range(len(items)), key=lambda place: (places[place], held[place]))]
