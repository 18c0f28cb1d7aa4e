"""What the catalog remembers of messages that are set aside in place: states.py says how.

states           topic | partition | offset | state | reason | author | changed_us | is_pending | change
state_changes    number | reason | author        what one change said of all its messages, once; gone with the last of them

A row that is pending is an intent: the message's byte may not say so yet. What changes rows is called within
Catalog.transaction() alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from headstream.log.catalog import Catalog
from headstream.model.message import StateChange

__all__ = ["find_exception", "find_states", "forget_states", "pending_states", "put_states", "remove_states", "settle_states"]


_LAST: Final = (1 << 63) - 1
"""The greatest number of the catalog."""


def find_states(
    catalog: Catalog, topic: int, partition: int, from_offset: int = 0, until_offset: int = 1 << 62, count: int = -1
) -> list[StateChange]:
    """Return the messages of a partition that are not available, pending ones included, by offset.

    Args:
        catalog: The log's.
        topic: The topic's number.
        partition: From 1.
        from_offset: The first offset that is looked at.
        until_offset: One past the last one.
        count: The most messages; less than 0 is all.
    """
    since = (topic, partition, min(from_offset, _LAST), min(until_offset, _LAST), count)
    where = "WHERE topic = ? AND partition = ? AND offset >= ? AND offset < ? ORDER BY offset LIMIT ?"
    found = catalog.select(
        "SELECT offset, state, coalesce(kept.reason, states.reason), coalesce(kept.author, states.author), changed_us "
        f"FROM states LEFT JOIN state_changes AS kept ON kept.number = states.change {where}",
        *since,
        since=7,
    ) or catalog.select(f"SELECT offset, state, reason, author, changed_us FROM states {where}", *since, since=3)
    return [StateChange(*row) for row in found]


def find_exception(catalog: Catalog, topic: int, partition: int, from_offset: int) -> int | None:
    """Return the offset of the first message at or after an offset that may not be available, or None."""
    query = "SELECT offset FROM states WHERE topic = ? AND partition = ? AND offset >= ? ORDER BY offset LIMIT 1"
    found = catalog.select(query, topic, partition, min(from_offset, _LAST), since=3)
    return int(found[0][0]) if found else None


def pending_states(catalog: Catalog) -> list[tuple[int, int, int, int]]:
    """Return every change of state that may not have been made: topic, partition, offset, state."""
    query = "SELECT topic, partition, offset, state FROM states WHERE is_pending ORDER BY topic, partition, offset"
    return catalog.select(query, since=3)


def put_states(catalog: Catalog, topic: int, partition: int, changes: Iterable[StateChange]) -> None:
    """Record what the states of messages are about to be."""
    wanted = list(changes)
    # First of all what was recorded goes: with its last message, what a change says goes too.
    catalog.change_each(
        "DELETE FROM states WHERE topic = ? AND partition = ? AND offset = ?",
        [(topic, partition, each.offset) for each in wanted],
    )
    numbers = {said: _put_change(catalog, *said) for said in dict.fromkeys((each.reason, each.by) for each in wanted)}
    catalog.change_each(
        "INSERT INTO states (topic, partition, offset, state, reason, author, changed_us, is_pending, change) "
        "VALUES (?, ?, ?, ?, '', '', ?, 1, ?)",
        [(topic, partition, each.offset, each.state, each.changed_us, numbers[each.reason, each.by]) for each in wanted],
    )


def _put_change(catalog: Catalog, reason: str, author: str) -> int:
    """Keep what a change says, unless the last one said the same, and return its number."""
    last = catalog.select("SELECT number, reason, author FROM state_changes ORDER BY number DESC LIMIT 1", since=7)
    if last and last[0][1:] == (reason, author):
        return int(last[0][0])
    catalog.change("INSERT INTO state_changes (reason, author) VALUES (?, ?)", reason, author)
    return int(catalog.select("SELECT max(number) FROM state_changes", since=7)[0][0])


def settle_states(catalog: Catalog, topic: int, partition: int, offsets: Iterable[int], available: int) -> None:
    """Record that messages have the states that were recorded; those that are available need no row."""
    places = [(topic, partition, offset) for offset in offsets]
    place = "topic = ? AND partition = ? AND offset = ?"
    catalog.change_each(f"UPDATE states SET is_pending = 0 WHERE {place}", places)
    catalog.change_each(f"DELETE FROM states WHERE {place} AND state = {int(available)}", places)


def forget_states(catalog: Catalog, topic: int, partition: int, until_offset: int) -> None:
    """Forget the states of messages before an offset, which are dropped."""
    catalog.change("DELETE FROM states WHERE topic = ? AND partition = ? AND offset < ?", topic, partition, until_offset)


def remove_states(catalog: Catalog, topic: int, partition: int, offsets: Iterable[int]) -> None:
    """Forget the states of messages that are not there any more."""
    places = [(topic, partition, offset) for offset in offsets]
    catalog.change_each("DELETE FROM states WHERE topic = ? AND partition = ? AND offset = ?", places)
