"""What the catalog remembers of messages that are set aside in place: states.py says how.

states     topic | partition | offset | state | reason | author | changed_us | is_pending

A row that is pending is an intent: the message's byte may not say so yet. What changes rows is called within
Catalog.transaction() alone.
"""

from __future__ import annotations

from collections.abc import Iterable

from headstream.log.catalog import Catalog
from headstream.model.message import StateChange

__all__ = ["find_states", "forget_states", "pending_states", "put_states", "remove_states", "settle_states"]


def find_states(catalog: Catalog, topic: int, partition: int) -> list[StateChange]:
    """Return every message of a partition that is not available, pending ones included, by offset."""
    query = "SELECT offset, state, reason, author, changed_us FROM states WHERE topic = ? AND partition = ? ORDER BY offset"
    return [StateChange(*row) for row in catalog.select(query, topic, partition, since=3)]


def pending_states(catalog: Catalog) -> list[tuple[int, int, int, int]]:
    """Return every change of state that may not have been made: topic, partition, offset, state."""
    query = "SELECT topic, partition, offset, state FROM states WHERE is_pending ORDER BY topic, partition, offset"
    return catalog.select(query, since=3)


def put_states(catalog: Catalog, topic: int, partition: int, changes: Iterable[StateChange]) -> None:
    """Record what the states of messages are about to be."""
    catalog.change_each(
        "INSERT OR REPLACE INTO states VALUES (?, ?, ?, ?, ?, ?, ?, 1)",
        [(topic, partition, each.offset, each.state, each.reason, each.by, each.changed_us) for each in changes],
    )


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
