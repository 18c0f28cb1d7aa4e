"""Tables that are stopped: too many of their messages can never be applied. All of a stopped table's messages wait.

dead messages -> of a table (by schema id): its rate | of no table: their topic's rate
a table above max_dead_rate: stopped, its dead messages and its changes wait; retried as a failing table | a topic: the run ends
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

import pyarrow as pa

from headstream.errors import ReplicateError
from headstream.replicate.columns.raw import RAW_SCHEMA
from headstream.replicate.decoding.decode import Decoded, Decoder
from headstream.replicate.parked.bounds import DeadRates, Owner
from headstream.replicate.parked.ledger import Table
from headstream.replicate.parked.parking import Held
from headstream.replicate.parked.table_health import TableHealth
from headstream.replicate.settings.config import ReplicateConfig

__all__ = ["StoppedTables"]

_WAY_ON: Final = (
    "all of its messages wait. Correct its settings, exclude the table (they are dropped then), or raise max_dead_rate (those "
    "that cannot be applied go to the dead letter then), and run again"
)


class StoppedTables:
    """The stopped tables of one pipeline.

    Args:
        health: Its failing tables; the stopped ones are among them.
        now_us: Returns the time, microseconds since 1970 UTC.
    """

    def __init__(self, config: ReplicateConfig, decoder: Decoder, health: TableHealth, now_us: Callable[[], int]) -> None:
        self._decoder = decoder
        self._health = health
        self._now_us = now_us
        self._share = config.max_dead_rate
        self._rates = DeadRates(config.max_dead_rate, config.dead_rate_messages)

    def take_out(self, decoded: Decoded, *, rejected: bool = False) -> list[Held]:
        """Stop the tables whose rate a micro-batch exceeds, and take the dead messages of stopped tables out of it.

        Args:
            decoded: The micro-batch, or the changes of it that its merge rejected, as dead messages.
            rejected: Whether these are changes that were counted before.

        Returns:
            The messages taken out, which wait for their table.

        Raises:
            ReplicateError: too many of a topic's messages belong to no table, and can never be a change.
        """
        dead, owners, reasons = self._divide(decoded)
        messages = self._count(decoded)
        for owner, found in reasons.items():
            messages[owner] += found.total() if isinstance(owner, tuple) and not rejected else 0
        for owner, text in self._rates.find_exceeded(messages, reasons).items():
            if isinstance(owner, str):
                raise ReplicateError(
                    text,
                    where=owner,
                    advice="They belong to no table. Nothing of this micro-batch was dead-lettered. Correct its cause and run "
                    "again; or raise max_dead_rate, and they go to the dead letter",
                )
            self._stop(owner, text)
        return self._hold(decoded, dead, owners, self._health.stopped)

    def retry(self, decoded: Decoded) -> tuple[list[Held], dict[Table, str]]:
        """Take the dead messages of tables that stay stopped out of a release; those with few of them are merged.

        A table ends its stop with the release of its last waiting messages: until then the others can be as bad.

        Returns:
            The messages taken out, which wait for their table; the tables that are not merged, with reasons.
        """
        dead, owners, reasons = self._divide(decoded)
        messages = self._count(decoded)
        waiting, staying = self._health.waited_for(), dict[Table, str]()
        for table, reason in self._health.stopped.items():
            given_up = reasons.get(table, Counter()).total()
            read = messages[table] + given_up
            if given_up > self._share * read:
                self._stop(table, f"{given_up:,} of {read:,} waiting messages cannot be applied: {_most(reasons[table])}")
                staying[table] = self._health.stopped[table]
            elif not read:
                staying[table] = reason
            elif table not in waiting:
                self._health.note_success(table)
        return self._hold(decoded, dead, owners, staying), staying

    def _stop(self, table: Table, text: str) -> None:
        self._health.note_failure(table, f"stopped, since {text}; {_WAY_ON}", self._now_us(), stopped=True)

    def _divide(self, decoded: Decoded) -> tuple[pa.Table, list[Owner], dict[Owner, Counter[str]]]:
        """Return the dead messages, whose they are, and their reasons."""
        dead = pa.Table.from_batches(decoded.dead, RAW_SCHEMA)
        ids, topics, texts = (dead[name].to_pylist() for name in ("schema_id", "topic", "reason"))
        targets = {schema_id: self._decoder.target_of(schema_id) for schema_id in set(ids) - {None}}
        owners: list[Owner] = [targets.get(schema_id) or topic for schema_id, topic in zip(ids, topics, strict=True)]
        reasons: dict[Owner, Counter[str]] = {}
        for owner, text in zip(owners, texts, strict=True):
            reasons.setdefault(owner, Counter())[text] += 1
        return dead, owners, reasons

    def _count(self, decoded: Decoded) -> Counter[Owner]:
        """Return the number of messages of each topic, and of changes of each table."""
        counts = Counter[Owner]()
        for times in decoded.times:
            counts[times.topic] += times.messages
        for schema_id, batches in decoded.changes.items():
            counts[self._decoder.schema(schema_id).table] += sum(batch.num_rows for batch in batches)
        for schema_id, stored in decoded.stored.items():
            counts[self._decoder.schema(schema_id).table] += stored.traits.count
        return counts

    @staticmethod
    def _hold(decoded: Decoded, dead: pa.Table, owners: list[Owner], stopped: Mapping[Table, str]) -> list[Held]:
        if not any(owner in stopped for owner in owners):
            return []
        held = [
            Held(table, reason, dead.filter(pa.array([owner == table for owner in owners], pa.bool_())))
            for table, reason in stopped.items()
        ]
        kept = dead.filter(pa.array([owner not in stopped for owner in owners], pa.bool_()))
        decoded.dead = kept.to_batches()
        return [part for part in held if part.messages.num_rows]


def _most(reasons: Counter[str]) -> str:
    return "; ".join(f"{count:,} times: {reason}" for reason, count in reasons.most_common(3))
