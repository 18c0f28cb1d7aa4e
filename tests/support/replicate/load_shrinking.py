"""A history that ends wrong made small: messages are taken away as long as it still does, and what is left is written down."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.replicate.load_delivery import Cut
from tests.support.replicate.load_histories import LogMessage


def shrink(cut: Cut, fails: Callable[[Cut], bool]) -> Cut:
    """Return the smallest cut that was found which still fails, by taking messages away and joining micro-batches.

    Args:
        cut: One that fails.
        fails: Says whether another does.
    """
    size = max(1, sum(map(len, cut.batches)) // 2)
    while size:
        place = 0
        while place < sum(map(len, cut.batches)):
            fewer = _without(cut, place, size)
            if fewer.batches and fails(fewer):
                cut = fewer
            else:
                place += size
        size //= 2
    place = 0
    while place + 1 < len(cut.batches):
        joined = [*cut.batches[:place], cut.batches[place] + cut.batches[place + 1], *cut.batches[place + 2 :]]
        if fails(Cut(cut.style, joined)):
            cut = Cut(cut.style, joined)
        else:
            place += 1
    return cut


def _without(cut: Cut, first: int, count: int) -> Cut:
    number, batches = 0, []
    for batch in cut.batches:
        kept = [message for place, message in enumerate(batch, number) if not first <= place < first + count]
        number += len(batch)
        if kept:
            batches.append(kept)
    return Cut(cut.style, batches)


def describe(cut: Cut) -> str:
    """Return the micro-batches as text: partition@offset, log time in seconds since the first, and what each message says."""
    messages = [message for batch in cut.batches for message in batch]
    begun_us = min((message.logged_us for message in messages), default=0)
    lines = []
    for number, batch in enumerate(cut.batches):
        lines.append(f"micro-batch {number}")
        lines += [f"  {_line(message, begun_us)}" for message in batch]
    return "\n".join(lines)


def _line(message: LogMessage, begun_us: int) -> str:
    place = f"p{message.partition}@{message.offset:<3} {(message.logged_us - begun_us) / 1e6:8.3f} s"
    fact = message.fact
    if fact is None:
        return f"{place}  metadata"
    moved = "" if fact.before is None else f"<-{fact.before}"
    load = f" load {fact.load}" if fact.load else f" sequence {int(fact.sequence[16:])}"
    return f"{place}  {fact.table} {fact.operation}{load} {fact.key}{moved} {fact.values if fact.operation != 'DELETE' else ''}"
