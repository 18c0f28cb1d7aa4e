"""Stops tables with too many messages that can never be applied; all messages of a stopped table wait.

dead messages with a table (by schema id) -> rate of the table; above max_dead_rate the table is stopped: its dead messages
                                             and its changes wait, and it is retried as a failing table
dead messages without a table             -> rate of the topic; above max_dead_rate the run ends
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

import pyarrow as pa

from headstream.errors import ReplicateError
from headstream.replicate.columns.large_values import take_rows
from headstream.replicate.columns.raw import RAW_SCHEMA
from headstream.replicate.decoding.decoded import Decoded
from headstream.replicate.parked.bounds import DeadRates, Owner
from headstream.replicate.parked.failing_tables import FailingTables
from headstream.replicate.parked.ledger import Table
from headstream.replicate.parked.parking import Held
from headstream.replicate.run.unit import PipelineContext, Unit

_Dead: TypeAlias = dict[Owner, pa.Table]
"""Dead messages (RAW_SCHEMA) by owner."""
_WAY_ON: Final = (
    "all messages of the table wait. Correct the table's settings, exclude the table (its messages are then dropped), or raise "
    "max_dead_rate (messages that cannot be applied then become dead letters), and run again"
)


class StoppedTables:
    """The stopped tables of one pipeline."""

    def __init__(self, context: PipelineContext, health: FailingTables) -> None:
        self._decoder = context.decoder
        self._health = health
        self._now_us = context.clock_us
        self._share = context.config.max_dead_rate
        self._rates = DeadRates(context.config.max_dead_rate, context.config.dead_rate_messages)

    def take_out(self, unit: Unit) -> Unit:
        """Count a micro-batch, stop the tables that exceed the rate, and remove dead messages of stopped tables from the unit.

        Raises:
            ReplicateError: too many messages of a topic have no table and can never be a change.
        """
        dead = self._divide(unit.decoded.dead)
        messages = self._count(unit.decoded)
        for owner, found in dead.items():
            messages[owner] += found.num_rows if isinstance(owner, tuple) else 0
        self._stop_exceeded(messages, dead)
        return _take_out(unit, dead, self._health.stopped)

    def take_out_rejected(self, rejected: pa.Table) -> tuple[list[Held], list[pa.RecordBatch]]:
        """Stop the tables with too many changes that a merge has rejected (RAW_SCHEMA); take_out() has counted the changes.

        Returns the messages of stopped tables, and all other messages.
        """
        dead = self._divide(rejected.to_batches())
        self._stop_exceeded(dict.fromkeys(dead, 0), dead)
        return _split(dead, self._health.stopped)

    def retry(self, unit: Unit) -> Unit:
        """From a release, remove the dead messages of tables that stay stopped; tables with few dead messages are merged.

        A table stays stopped until the release of its last waiting messages, because all remaining messages can be invalid.
        """
        dead = self._divide(unit.decoded.dead)
        messages = self._count(unit.decoded)
        waiting, staying = self._health.waited_for(), dict[Table, str]()
        for table, reason in self._health.stopped.items():
            given_up = dead[table].num_rows if table in dead else 0
            read = messages[table] + given_up
            if given_up > self._share * read:
                most = "; ".join(f"{count:,} times: {text}" for text, count in _count_reasons(dead[table]).most_common(3))
                self._stop(table, f"{given_up:,} of {read:,} waiting messages cannot be applied: {most}")
                staying[table] = self._health.stopped[table]
            elif not read:
                staying[table] = reason
            elif table not in waiting:
                self._health.note_success(table)
        return _take_out(replace(unit, held_tables={**unit.held_tables, **staying}), dead, staying)

    def _stop_exceeded(self, messages: Mapping[Owner, int], dead: _Dead) -> None:
        reasons = {owner: _count_reasons(found) for owner, found in dead.items()}
        for owner, text in self._rates.find_exceeded(messages, reasons).items():
            if isinstance(owner, str):
                raise ReplicateError(
                    text,
                    where=owner,
                    advice="The table of these messages is unknown. No message of this micro-batch was dead-lettered. Correct "
                    "the cause and run again, or raise max_dead_rate to dead-letter the messages",
                )
            self._stop(owner, text)

    def _stop(self, table: Table, text: str) -> None:
        self._health.note_failure(table, f"stopped: {text}; {_WAY_ON}", self._now_us(), stopped=True)

    def _divide(self, batches: Sequence[pa.RecordBatch]) -> _Dead:
        dead = pa.Table.from_batches(batches, RAW_SCHEMA)
        ids, topics = dead["schema_id"].to_pylist(), dead["topic"].to_pylist()
        targets = {schema_id: self._decoder.target_of(schema_id) for schema_id in set(ids) - {None}}
        rows: dict[Owner, list[int]] = {}
        for row, (schema_id, topic) in enumerate(zip(ids, topics, strict=True)):
            rows.setdefault(targets.get(schema_id) or topic, []).append(row)
        return {owner: take_rows(dead, pa.array(found)) for owner, found in rows.items()}

    def _count(self, decoded: Decoded) -> Counter[Owner]:
        """Return the number of messages per topic and the number of changes per table."""
        counts = Counter[Owner]()
        for times in decoded.times:
            counts[times.topic] += times.messages
        for schema_id, batches in decoded.changes.items():
            counts[self._decoder.schema(schema_id).table] += sum(batch.num_rows for batch in batches)
        for schema_id, stored in decoded.stored.items():
            counts[self._decoder.schema(schema_id).table] += stored.statistics.count
        return counts


def _count_reasons(dead: pa.Table) -> Counter[str]:
    return Counter(dead["reason"].to_pylist())


def _split(dead: _Dead, stopped: Mapping[Table, str]) -> tuple[list[Held], list[pa.RecordBatch]]:
    held = [Held(table, reason, dead[table]) for table, reason in stopped.items() if table in dead]
    return held, [batch for owner, found in dead.items() if owner not in stopped for batch in found.to_batches()]


def _take_out(unit: Unit, dead: _Dead, stopped: Mapping[Table, str]) -> Unit:
    held, kept = _split(dead, stopped)
    return replace(unit, decoded=replace(unit.decoded, dead=kept), stopped=held)
