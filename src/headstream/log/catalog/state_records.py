"""The catalog's tables of message states; states.py describes the protocol.

states           topic | partition | offset | state | reason | author | changed_us | is_pending | change
state_changes    number | reason | author        reason and author of a change, stored once; deleted with its last message

A pending row is an intent: the message's state byte is possibly not yet written. Changes of rows require a Catalog.transaction().
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from headstream.core.model.message import StateChange
from headstream.log.catalog.catalog import Catalog

_LAST: Final = (1 << 63) - 1
"""SQLite's largest integer."""


def find_states(
    catalog: Catalog, topic: int, partition: int, from_offset: int = 0, until_offset: int = 1 << 62, count: int = -1
) -> list[StateChange]:
    """Return messages in other states than available in a range of offsets, with pending changes; negative count: all."""
    since = (topic, partition, min(from_offset, _LAST), min(until_offset, _LAST), count)
    where = "WHERE topic = ? AND partition = ? AND offset >= ? AND offset < ? ORDER BY offset LIMIT ?"
    query = f"SELECT offset, state, reason, author, changed_us FROM states {where}"
    with catalog.reading() as version:
        if version > 6:
            query = (
                "SELECT offset, state, coalesce(kept.reason, states.reason), coalesce(kept.author, states.author), changed_us "
                f"FROM states LEFT JOIN state_changes AS kept ON kept.number = states.change {where}"
            )
        return [StateChange(*row) for row in catalog.select(query, *since, since=3)]


def find_exception(catalog: Catalog, topic: int, partition: int, from_offset: int) -> int | None:
    """Return the first offset, at or after an offset, whose message has a state row; None if there is none."""
    query = "SELECT offset FROM states WHERE topic = ? AND partition = ? AND offset >= ? ORDER BY offset LIMIT 1"
    found = catalog.select_committed(query, topic, partition, min(from_offset, _LAST), since=3)
    return int(found[0][0]) if found else None


def find_state_among(catalog: Catalog, topic: int, partition: int, from_offset: int, states: Collection[int]) -> int | None:
    """Return the first offset, at or after an offset, whose row has one of the states; None if there is none."""
    among = ",".join("?" * len(states))
    where = f"WHERE topic = ? AND partition = ? AND offset >= ? AND state IN ({among})"
    query = f"SELECT offset FROM states {where} ORDER BY offset LIMIT 1"
    found = catalog.select_committed(query, topic, partition, min(from_offset, _LAST), *states, since=3)
    return int(found[0][0]) if found else None


def unavailable_offsets(catalog: Catalog, topic: int, partition: int, available: int) -> list[int]:
    """Return the ascending offsets of a partition's messages in other states than available, without pending changes."""
    query = "SELECT offset FROM states WHERE topic = ? AND partition = ? AND state != ? AND NOT is_pending ORDER BY offset"
    return [offset for (offset,) in catalog.select_committed(query, topic, partition, available, since=3)]


def pending_states(catalog: Catalog) -> list[tuple[int, int, int, int]]:
    """Return all pending state changes: topic, partition, offset, state."""
    query = "SELECT topic, partition, offset, state FROM states WHERE is_pending ORDER BY topic, partition, offset"
    return catalog.select(query, since=3)


def oldest_marks(catalog: Catalog) -> list[tuple[int, int, int]]:
    """Return topic, partition and time (microseconds) of the oldest deletion mark of each partition that has marks."""
    query = "SELECT topic, partition, min(changed_us) FROM states WHERE state = 30 GROUP BY topic, partition"
    return catalog.select(query, since=9)


def count_marks(catalog: Catalog) -> list[tuple[int, int, int]]:
    """Return topic, number of messages marked for deletion, and the time of the oldest mark (microseconds), per topic."""
    query = "SELECT topic, count(*), min(changed_us) FROM states WHERE state = 30 GROUP BY topic"
    return catalog.select(query, since=9)


def marked_before(
    catalog: Catalog, topic: int, partition: int, before_us: int, from_offset: int = 0, until_offset: int = _LAST
) -> list[int]:
    """Return the offsets in a range whose messages were marked for deletion before a time, microseconds."""
    where = "WHERE topic = ? AND partition = ? AND state = 30 AND changed_us < ? AND NOT is_pending "
    where += "AND offset >= ? AND offset < ? ORDER BY offset"
    values = topic, partition, min(before_us, _LAST), from_offset, until_offset
    found = catalog.select(f"SELECT offset FROM states {where}", *values, since=9)
    return [offset for (offset,) in found]


def marked_with_reason(
    catalog: Catalog, topic: int, partition: int, reason: str, from_offset: int = 0, until_offset: int = _LAST
) -> list[int]:
    """Return the offsets in a range whose messages were marked for deletion with a reason."""
    found = catalog.select(
        "SELECT offset FROM states WHERE topic = ? AND partition = ? AND state = 30 AND NOT is_pending "
        "AND change IN (SELECT number FROM state_changes WHERE reason = ?) "
        "AND offset >= ? AND offset < ? ORDER BY offset",
        *(topic, partition, reason, from_offset, until_offset),
        since=9,
    )
    return [offset for (offset,) in found]


def forget_marked(catalog: Catalog, topic: int, partition: int, offsets: Iterable[int]) -> None:
    """Delete the states of messages that were removed because they were marked for deletion."""
    keys = [(topic, partition, offset) for offset in offsets]
    match = "topic = ? AND partition = ? AND offset = ? AND state = 30 AND NOT is_pending"
    catalog.change_each(f"DELETE FROM states WHERE {match}", keys)


def put_states(catalog: Catalog, topic: int, partition: int, changes: Iterable[StateChange]) -> None:
    """Record the states that are about to be written to messages."""
    wanted = list(changes)
    # Delete existing rows first: their last message deletes the change row too.
    catalog.change_each(
        "DELETE FROM states WHERE topic = ? AND partition = ? AND offset = ?",
        [(topic, partition, each.offset) for each in wanted],
    )
    numbers = {note: _put_change(catalog, *note) for note in dict.fromkeys((each.reason, each.by) for each in wanted)}
    catalog.change_each(
        "INSERT INTO states (topic, partition, offset, state, reason, author, changed_us, is_pending, change) "
        "VALUES (?, ?, ?, ?, '', '', ?, 1, ?)",
        [(topic, partition, each.offset, each.state, each.changed_us, numbers[each.reason, each.by]) for each in wanted],
    )


def _put_change(catalog: Catalog, reason: str, author: str) -> int:
    """Store reason and author of a change, unless equal to the last change; return the number of the change."""
    last = catalog.select("SELECT number, reason, author FROM state_changes ORDER BY number DESC LIMIT 1", since=7)
    if last and last[0][1:] == (reason, author):
        return int(last[0][0])
    catalog.change("INSERT INTO state_changes (reason, author) VALUES (?, ?)", reason, author)
    return int(catalog.select("SELECT max(number) FROM state_changes", since=7)[0][0])


def finish_pending_states(catalog: Catalog, topic: int, partition: int, offsets: Iterable[int], available: int) -> None:
    """Mark recorded states as written; delete the rows of available messages."""
    keys = [(topic, partition, offset) for offset in offsets]
    match = "topic = ? AND partition = ? AND offset = ?"
    catalog.change_each(f"UPDATE states SET is_pending = 0 WHERE {match}", keys)
    catalog.change_each(f"DELETE FROM states WHERE {match} AND state = {int(available)}", keys)


def forget_states(catalog: Catalog, topic: int, partition: int, until_offset: int) -> None:
    """Delete the states of messages before an offset, because the messages are dropped."""
    catalog.change("DELETE FROM states WHERE topic = ? AND partition = ? AND offset < ?", topic, partition, until_offset)


def remove_states(catalog: Catalog, topic: int, partition: int, offsets: Iterable[int]) -> None:
    """Delete the states of messages that no longer exist."""
    keys = [(topic, partition, offset) for offset in offsets]
    catalog.change_each("DELETE FROM states WHERE topic = ? AND partition = ? AND offset = ?", keys)
