"""Shortens a KeyLog: folds older changes into one state per key."""

from __future__ import annotations

from headstream.replicate.apply.moved_keys.key_log import KeyLog
from headstream.replicate.apply.type1.state_rows import log_rows
from headstream.replicate.columns.row_merge import KNOWN_STATE, Key, KeyEvent, KeyState, replay, sequence_of


def end_logged(log: KeyLog, keys: list[str], bound: str) -> None:
    """Log that a full load has removed logged keys' rows below `bound`. Earlier changes stay, for rows that arrive late."""
    ended: list[KeyEvent] = []
    left = set(log.keys())
    while left:
        connected = log.connected([left.pop()])
        left -= connected
        older = [event for event in log.events(log.select(connected)[1]) if event.sequence <= bound]
        ended += [KeyEvent("delete", key, bound) for key, state in replay(older).items() if state.exists]
    values, _ = log.select(())
    if ended and values is not None:
        log.add(log_rows(ended, values, keys))


def fold_log(log: KeyLog, keys: list[str], until: str, *, vanished: bool = False, soft: bool = False) -> None:
    """Fold logged changes up to a sequence into one row and one deletion per key.

    Keys without newer changes are removed from the log, since the table has their rows and the tombstones have their deletions. A
    transaction with a newer change is kept completely, because its other key updates determine which row a key update moves.

    Args:
        vanished: Whether the results of changes up to `until` no longer exist, because an ended full load has deleted them.
    """
    facts: list[KeyEvent] = []
    left = set(log.keys())
    values, _ = log.select(())
    border = "" if vanished else log.border(until)
    while left and values is not None:
        connected = log.connected([left.pop()])
        left -= connected
        events = log.events(log.select(connected)[1])
        newer = [event for event in events if event.sequence > until or (border and event.sequence >= border)]
        if not newer:
            continue
        if not vanished:
            older = [event for event in events if event.sequence < border]
        else:
            older = [event for event in events if event.sequence <= until] if soft else []
        for key, state in replay(older).items():
            facts += _facts(key, KeyState(until, "", state.row) if vanished and state.exists else state)
        facts += newer
    log.replace(log_rows(facts, values, keys) if facts and values is not None else None)


def _facts(key: Key, state: KeyState) -> list[KeyEvent]:
    """Return events that produce a key's state."""
    facts = [KeyEvent("delete", key, state.deletion, number=KNOWN_STATE)] if state.deletion else []
    place = state.upsert or sequence_of(state.row.version)  # a deleted row keeps its last columns
    if state.upsert or "" < place < state.deletion:
        facts.append(KeyEvent("upsert", key, place, state.row, number=KNOWN_STATE))
    return facts
