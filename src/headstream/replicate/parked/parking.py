"""Stores complete parked, delayed and dead messages in the pipeline's own log, in parked batches (ledger.py).

If a micro-batch is rerun after a crash, messages that the first run parked or dead-lettered stay unchanged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headstream.replicate.columns.large_values import MAX_UNIT_BYTES, take_rows
from headstream.replicate.columns.raw import COORDINATE_COLUMNS, RAW_SCHEMA, TRANSACTION, match_rows
from headstream.replicate.parked.bounds import WaitingBounds
from headstream.replicate.parked.ledger import Ledger, ParkedBatch, Record, Table, no_record
from headstream.replicate.parked.own_log import OwnLog
from headstream.replicate.parked.requests import ParkedRanges

# A topic of the pipeline's own log that contains each message once, even after a crash between log and ledger writes.
#
# The ledger stores the topic's recorded end (`mark.topic.<topic>`), in the transaction that records the appended messages.
# At the start, messages after the recorded end were appended by an interrupted step. When the step is repeated, it finds
# these messages by their offsets:
#
#     {"end": 1200, "orphans": [[1180, 1200]]}


class OnceTopic:
    """A topic of the pipeline's own log to which messages are appended once, even if a step is repeated after a crash."""

    def __init__(self, log: OwnLog, ledger: Ledger, topic: str) -> None:
        self.topic = topic
        self.mark = f"topic.{topic}"
        self._log = log
        known = json.loads(ledger.mark(self.mark) or '{"end": 0, "orphans": []}')
        self._orphans: list[list[int]] = known["orphans"]
        end = log.end(topic)
        if end > known["end"]:
            self._orphans.append([known["end"], end])
            ledger.set_mark(self.mark, self._state())

    def put(self, messages: pa.Table) -> tuple[pa.Table, str]:
        """Append messages, except messages that an interrupted step has already appended.

        Returns the messages with a column `log_offset`, and the value of `mark` for the transaction that records the messages.
        """
        offsets = np.full(messages.num_rows, -1, np.int64)
        for orphan in list(self._orphans):
            parts = list(self._log.read(self.topic, *orphan))
            if not parts:  # erased in the meantime
                continue
            lost = pa.concat_tables(parts)
            rows, places = _match_same(messages, lost)
            if len(rows):
                offsets[rows] = lost["log_offset"].to_numpy()[places]
                self._orphans.remove(orphan)
        fresh = np.flatnonzero(offsets < 0)
        if fresh.size:
            placed = self._log.put(self.topic, take_rows(messages, pa.array(fresh)).select(RAW_SCHEMA.names))
            offsets[fresh] = np.arange(placed.from_offset, placed.until_offset)
        return messages.append_column("log_offset", pa.array(offsets)), self._state()

    def _state(self) -> str:
        return json.dumps({"end": self._log.end(self.topic), "orphans": self._orphans})


PARKED_TOPIC: Final = "replicate/parked"
DEAD_LETTER_TOPIC: Final = "replicate/dead-letter"
MAX_RELEASE: Final = 200_000
"""Maximum number of messages per release, which is decoded and merged in memory as one unit (of at most MAX_UNIT_BYTES)."""
_MAX_PARKED_BATCH_BYTES: Final = MAX_UNIT_BYTES // 8
_MAX_PARKED_BATCHES: Final = 64
"""Maximum number of parked batches per call: reasons that contain a value must not create one parked batch per message."""
_SEVERAL: Final = "several reasons"
_NO_MESSAGES: Final = RAW_SCHEMA.empty_table()
_COORDINATES: Final = pa.schema([RAW_SCHEMA.field(name) for name in COORDINATE_COLUMNS])


@dataclass(frozen=True, slots=True)
class Held:
    """Waiting messages of a table.

    Args:
        messages: RAW_SCHEMA; before the messages are read again, only coordinates, schema ids and reasons. With the cause
            `transaction`, there is also a column TRANSACTION.
        cause: What the messages wait for: the table's recovery, their complete transactions, or earlier messages of the log.
    """

    table: Table
    reason: str
    messages: pa.Table
    cause: Literal["table", "transaction", "load"] = "table"


@dataclass(frozen=True, slots=True)
class Release:
    """Messages that were released for another attempt.

    Args:
        counts: The number of messages of each parked batch, which is less than its number of offsets if messages were erased.
        messages: RAW_SCHEMA, in the order of the parked batches.
        resumed: Whether an earlier run began this release and was interrupted.
    """

    number: int
    parked_batches: list[ParkedBatch]
    counts: list[int]
    messages: pa.Table
    resumed: bool = False

    @property
    def repeats(self) -> bool:
        """Whether messages may already have been applied, by an earlier attempt or before they were parked."""
        return self.resumed or any(
            parked_batch.cause not in ("schema", "transaction", "load") for parked_batch in self.parked_batches
        )


class ParkingLot:
    """The parked, delayed and dead messages of a pipeline, and the limits for waiting messages."""

    def __init__(self, checkpoint: Path, delayed: str, ledger: Ledger, bounds: WaitingBounds) -> None:
        self._ledger = ledger
        self._bounds = bounds
        self._log = OwnLog(checkpoint, (PARKED_TOPIC, delayed, DEAD_LETTER_TOPIC))
        self._delayed = OnceTopic(self._log, ledger, delayed)
        self._dead = OnceTopic(self._log, ledger, DEAD_LETTER_TOPIC)
        self._batch: int | None = None

    @property
    def log(self) -> OwnLog:
        """The pipeline's own log."""
        return self._log

    def close(self) -> None:
        """Close the log."""
        self._log.close()

    def begin_batch(self, batch_id: int) -> pa.Table | None:
        """Begin a micro-batch; in a rerun after a crash, return the coordinates of messages that were parked or dead-lettered."""
        self._batch = batch_id
        if self._ledger.mark("batch") != str(batch_id):
            self._ledger.forget_done(self._read_again()[1])
            self._ledger.set_mark("batch", str(batch_id))
            return None
        parts = [
            part.select(_COORDINATES.names)
            for parked_batch in self._ledger.parked_batches_of(batch_id)
            for part in self._read(parked_batch)
        ]
        return pa.concat_tables([_COORDINATES.empty_table(), *parts])

    def note_read_again(self, now_us: int) -> None:
        """Record durably that messages of the newest micro-batch, logged before now, are read again in other micro-batches."""
        newest = int(self._ledger.mark("batch") or -1)
        self._ledger.set_mark("read_again", json.dumps([now_us, sorted({*self._read_again()[1], newest})]))

    def forget_read_again(self) -> None:
        """Remove the record of note_read_again(), after another finished micro-batch has read all of these messages."""
        self._ledger.set_mark("read_again", "")

    def find_read_again(self) -> tuple[int, pa.Table] | None:
        """Return the log time before which messages are read again, and the parked or dead messages among them, or None.

        The messages have only COORDINATE_COLUMNS and timestamp_us.
        """
        until_us, batches = self._read_again()
        names = [*COORDINATE_COLUMNS, "timestamp_us"]
        parked = [each for batch in batches for each in self._ledger.parked_batches_of(batch)]
        found = [_NO_MESSAGES.select(names), *(m.select(names) for each in parked for m in self._read(each))]
        return (until_us, pa.concat_tables(found)) if batches else None

    def _read_again(self) -> tuple[int, list[int]]:
        until_us, batches = json.loads(self._ledger.mark("read_again") or "[0, []]")
        return until_us, batches

    def end_batch(self) -> None:
        """End the micro-batch: messages that are parked later are not attributed to it."""
        self._batch = None

    def park(self, batches: Iterable[pa.RecordBatch], now_us: int) -> int:
        """Park raw messages (RAW_SCHEMA, with schema ids) until their schema arrives; return their number."""
        messages = _table(batches)
        self._check_bounds([messages])
        if messages.num_rows:
            found = self._put_parked(_sorted(messages), "schema", now_us)
            self._ledger.add(replace(parked_batch, reason=None) for parked_batch in found)
        return int(messages.num_rows)

    def hold(self, held: Iterable[Held], now_us: int, also: Record = no_record) -> None:
        """Park raw messages until their table recovers or the condition of their cause is met.

        Raises:
            ReplicateError: too many messages would wait.
        """
        held = list(held)
        self._check_bounds([part.messages for part in held])
        parked_batches = [parked_batch for part in held for parked_batch in self._put_held(part, now_us)]
        if parked_batches or also is not no_record:
            self._ledger.add(parked_batches, also=also)

    def _check_bounds(self, tables: list[pa.Table]) -> None:
        size_bytes = sum(pc.sum(pc.binary_length(table["payload"])).as_py() or 0 for table in tables)
        self._bounds.check(sum(table.num_rows for table in tables), size_bytes)

    def dead_letter(self, batches: Iterable[pa.RecordBatch], now_us: int) -> int:
        """Move raw messages (RAW_SCHEMA, with reasons) to the dead-letter topic; return their number."""
        messages = _table(batches)
        if messages.num_rows:
            parked_batches, marks = self._place_dead(messages, now_us)
            self._ledger.add(parked_batches, marks=marks)
        return int(messages.num_rows)

    def overdue(self, before_us: int) -> list[ParkedBatch]:
        """Return the batches that were parked before a time because of their schema."""
        parked = self._ledger.parked_batches("parked")
        return [parked_batch for parked_batch in parked if parked_batch.cause == "schema" and parked_batch.since_us <= before_us]

    def delay(self, parked_batches: Iterable[ParkedBatch]) -> None:
        """Move parked messages to the delayed topic."""
        for parked_batch in parked_batches:
            reason = f"the schema did not arrive in time: schema id {parked_batch.schema_id}"
            messages = self._read_whole(parked_batch)
            if not messages.num_rows:  # erased
                self._ledger.add((), done=[parked_batch.id])
                continue
            placed, mark = self._delayed.put(_with_reason(messages, reason))
            moved = _group_in_batches(placed, self._delayed.topic, "delayed", parked_batch.cause, parked_batch.since_us, None)
            self._ledger.add((replace(m, reason=None) for m in moved), done=[parked_batch.id], marks={self._delayed.mark: mark})

    def give_up(self, parked_batches: Iterable[ParkedBatch], reason: str, now_us: int) -> None:
        """Move parked messages to the dead-letter topic."""
        for parked_batch in parked_batches:
            messages = self._read_whole(parked_batch)
            dead, marks = self._place_dead(_with_reason(messages, reason), now_us) if messages.num_rows else ([], {})
            self._ledger.add(dead, done=[parked_batch.id], marks=marks)

    def mark_discarded(self, discarded: ParkedRanges) -> None:
        """Mark messages of the log for deletion; removed messages are ignored."""
        for part in discarded.ranges:
            for messages in self._log.read(discarded.log_topic, *part):
                self._log.mark_for_deletion(discarded.log_topic, messages["log_offset"].to_pylist(), "discarded")

    def next_release(self, schema_ids: Iterable[str], tables: Iterable[Table], read_until_us: int = 0) -> Release | None:
        """Begin the next release, or resume an interrupted release; see Ledger.begin_release()."""
        number = self._ledger.unfinished_release()
        resumed = number is not None
        if number is None:
            number = self._ledger.begin_release(schema_ids, tables, MAX_RELEASE, read_until_us, MAX_UNIT_BYTES)
        if number is None:
            return None
        parked_batches = self._ledger.released(number)
        return Release(number, parked_batches, *self._read_all(parked_batches), resumed)

    def finish_release(
        self,
        release: Release,
        now_us: int,
        *,
        held: Iterable[Held] = (),
        waiting: Iterable[pa.RecordBatch] = (),
        dead: Iterable[pa.RecordBatch] = (),
        also: Record = no_record,
    ) -> int:
        """End a release whose other messages were applied; return the number of messages moved to the dead-letter topic.

        Args:
            held: Messages that wait, possibly again, for their table, transaction or load.
            waiting: Messages that still wait for their schema.
            dead: Messages that can never be a change.
        """
        rejected = _table(dead)
        again, marks = self._place_dead(rejected, now_us) if rejected.num_rows else ([], {})
        still = _table(waiting)
        if still.num_rows:
            parked = self._put_parked(_sorted(still), "schema", now_us)
            again += [replace(parked_batch, reason=None) for parked_batch in parked]
        again += [parked_batch for part in held for parked_batch in self._hold_again(release, part)]
        self._ledger.finish_release(release.number, again, marks, also)
        return int(rejected.num_rows)

    def _hold_again(self, release: Release, part: Held) -> Iterator[ParkedBatch]:
        """Yield the batches of a release whose messages all wait, and new batches for the waiting parts of other batches."""
        ends = np.cumsum(release.counts)
        found, places = (column.to_numpy() for column in match_rows(release.messages, part.messages))
        owners = np.searchsorted(ends, found, "right")
        rejected_by = release.number if part.cause == "table" else None
        for index in np.unique(owners).tolist():
            parked_batch, mine = release.parked_batches[index], owners == index
            messages = take_rows(release.messages, pa.array(found[mine]))
            waits_for = None
            if part.cause == "transaction":
                keys = part.messages[TRANSACTION].take(pa.array(places[mine]))
                messages = messages.append_column(TRANSACTION, keys)
                waits_for = keys[0].as_py()
            is_same = part.cause != "transaction" or parked_batch.transaction_key == waits_for
            is_timed = part.cause != "load" or parked_batch.logged_until_us is not None
            if messages.num_rows == release.counts[index] and is_same and is_timed:
                schema, name = part.table
                kept = replace(parked_batch, cause=part.cause, transaction_key=waits_for, table_schema=schema, table_name=name)
                yield replace(kept, reason=part.reason, release=rejected_by)
            else:
                new = self._put_held(replace(part, messages=messages), parked_batch.since_us)
                yield from (replace(each, release=rejected_by) for each in new)

    def _put_held(self, held: Held, since_us: int) -> list[ParkedBatch]:
        messages = _with_reason(held.messages, None)
        by = ["schema_id"]
        if held.cause == "transaction":
            messages = messages.append_column(TRANSACTION, held.messages[TRANSACTION])
            by.insert(0, TRANSACTION)
        parked_batches = self._put_parked(_sorted(messages, *by), held.cause, since_us)
        schema, name = held.table
        return [replace(p, table_schema=schema, table_name=name, reason=held.reason) for p in parked_batches]

    def _put_parked(self, messages: pa.Table, cause: str, since_us: int) -> list[ParkedBatch]:
        placed = self._log.put(PARKED_TOPIC, messages.select(RAW_SCHEMA.names))
        offsets = pa.array(np.arange(placed.from_offset, placed.until_offset))
        return _group_in_batches(
            messages.append_column("log_offset", offsets), PARKED_TOPIC, "parked", cause, since_us, self._batch
        )

    def _place_dead(self, messages: pa.Table, now_us: int) -> tuple[list[ParkedBatch], dict[str, str]]:
        """Append messages to the dead-letter topic; return the parked batches and marks for the ledger."""
        reasons = _few_reasons(messages["reason"])
        order = pc.sort_indices(
            pa.table({"id": messages["schema_id"], "reason": reasons}), [("reason", "ascending"), ("id", "ascending")]
        )
        placed, mark = self._dead.put(take_rows(messages, order))
        named = placed.set_column(placed.schema.get_field_index("reason"), "reason", reasons.take(order))
        return _group_in_batches(named, DEAD_LETTER_TOPIC, "dead", "message", now_us, self._batch), {self._dead.mark: mark}

    def _read(self, parked_batch: ParkedBatch) -> Iterable[pa.Table]:
        return self._log.read(parked_batch.log_topic, parked_batch.from_offset, parked_batch.until_offset)

    def _read_whole(self, parked_batch: ParkedBatch) -> pa.Table:
        return self._read_all([parked_batch])[1]

    def _read_all(self, parked_batches: Iterable[ParkedBatch]) -> tuple[list[int], pa.Table]:
        """Return the number of messages of each batch, and all messages in order; adjacent batches are read together."""
        runs: list[list[ParkedBatch]] = []
        for parked_batch in parked_batches:
            if runs and (runs[-1][-1].log_topic, runs[-1][-1].until_offset) == (parked_batch.log_topic, parked_batch.from_offset):
                runs[-1].append(parked_batch)
            else:
                runs.append([parked_batch])
        counts, parts = list[int](), [_NO_MESSAGES]
        for run in runs:
            edges = [run[0].from_offset, *(parked_batch.until_offset for parked_batch in run)]
            read = list(self._log.read(run[0].log_topic, edges[0], edges[-1]))
            offsets = np.concatenate([np.empty(0, np.int64), *(part["log_offset"].to_numpy() for part in read)])
            counts += np.diff(np.searchsorted(offsets, edges)).tolist()
            parts += [part.select(RAW_SCHEMA.names) for part in read]
        return counts, pa.concat_tables(parts)


def _match_same(messages: pa.Table, lost: pa.Table) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the row numbers of messages with equal coordinates, time and content: a recreated topic repeats only coordinates."""
    rows, places = match_rows(messages, lost)
    is_same = pc.equal(messages["timestamp_us"].take(rows), lost["timestamp_us"].take(places)).to_numpy()
    for name in ("key", "payload"):
        mine, theirs = (take_rows(part.select([name]), taken)[name] for part, taken in ((messages, rows), (lost, places)))
        is_same &= pc.equal(pc.fill_null(mine, b""), pc.fill_null(theirs, b"")).to_numpy()
    return rows.to_numpy()[is_same], places.to_numpy()[is_same]


def _table(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    return pa.Table.from_batches([batch for batch in batches if batch.num_rows], RAW_SCHEMA)


def _sorted(messages: pa.Table, *names: str) -> pa.Table:
    by = names or ("schema_id",)
    return take_rows(messages, pc.sort_indices(messages.select(by), [(name, "ascending") for name in by]))


def _with_reason(messages: pa.Table, reason: str | None) -> pa.Table:
    column = pa.array([reason], pa.string()).take(pa.array(np.zeros(messages.num_rows, np.int64)))
    chosen = messages.select(RAW_SCHEMA.names)
    return chosen.set_column(RAW_SCHEMA.get_field_index("reason"), RAW_SCHEMA.field("reason"), column)


def _few_reasons(reasons: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a limited number of reasons: if there are too many, numbers in reasons are removed, and then the rarer reasons."""
    for shorten in (lambda text: text, lambda text: re.sub(r"\d+", "N", text or "")):
        encoded = reasons.combine_chunks().dictionary_encode()
        short = pa.array([shorten(text) for text in encoded.dictionary.to_pylist()], pa.string())
        reasons = pa.chunked_array([short.take(encoded.indices)])
        if len(pc.unique(reasons)) <= _MAX_PARKED_BATCHES:
            return reasons
    counted = reasons.value_counts().to_pylist()
    often = sorted(counted, key=lambda item: item["counts"], reverse=True)[:_MAX_PARKED_BATCHES]
    kept = pc.is_in(reasons, value_set=pa.array([item["values"] for item in often], pa.string()))
    return pa.chunked_array([pc.if_else(kept, reasons, _SEVERAL).combine_chunks()])


def _group_in_batches(
    placed: pa.Table, topic: str, state: str, cause: str, since_us: int, batch: int | None
) -> list[ParkedBatch]:
    """Group messages into parked batches of consecutive offsets with equal schema id, reason and transaction."""
    offsets = placed["log_offset"].to_numpy()
    breaks = np.diff(offsets) != 1
    has_transactions = TRANSACTION in placed.column_names
    for name in ("schema_id", "reason", *([TRANSACTION] if has_transactions else [])):
        codes = pc.fill_null(placed[name].combine_chunks().dictionary_encode().indices, -1).to_numpy(zero_copy_only=False)
        breaks |= np.diff(codes) != 0
    sizes = sum(
        pc.fill_null(pc.binary_length(placed[name]), 0).to_numpy().astype(np.int64) for name in ("payload", "key", "headers")
    )
    breaks |= np.diff(np.cumsum(sizes) // _MAX_PARKED_BATCH_BYTES) != 0
    starts = np.concatenate(([0], np.flatnonzero(breaks) + 1))
    ends = [*starts[1:].tolist(), len(offsets)]
    logged = placed["timestamp_us"].to_numpy()
    shared: dict[str, Any] = {"state": state, "cause": cause, "log_topic": topic, "since_us": since_us, "batch": batch}
    return [
        ParkedBatch(
            schema_id=placed["schema_id"][start].as_py(),
            reason=placed["reason"][start].as_py(),
            from_offset=int(offsets[start]),
            until_offset=int(offsets[end - 1]) + 1,
            size_bytes=int(sizes[start:end].sum()),
            transaction_key=placed[TRANSACTION][start].as_py() if has_transactions else None,
            logged_from_us=int(logged[start:end].min()),
            logged_until_us=int(logged[start:end].max()),
            **shared,
        )
        for start, end in zip(starts.tolist(), ends, strict=True)
    ]
