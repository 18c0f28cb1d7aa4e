"""Messages set aside: parked, delayed and dead ones, whole, in the pipeline's own log (`<checkpoint>/log`).

Each keeps its payload, key and headers, and gains headers that say where it came from and why it is here:

    hs.origin.topic string, hs.origin.partition int32, hs.origin.offset int64, hs.origin.timestamp int64 (us),
    hs.schema_id string (parked and delayed), hs.reason string (dead)

A micro-batch that is run again after a crash finds what its first run already put there, and does not put it there twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from headstream.broker.broker import Broker
from headstream.client.client import Client
from headstream.codec.binary import decode_headers, encode_headers, encode_sent
from headstream.errors import CorruptLogError
from headstream.log.shared import open_directory
from headstream.model.constructors import int32, int64, string
from headstream.model.identifiers import TopicName
from headstream.model.message import Message
from headstream.spark.replicate.ledger import Ledger, Parked
from headstream.spark.replicate.raw import RAW_SCHEMA, Coordinates, coordinates_of

__all__ = ["DEAD_LETTER_TOPIC", "PARKED_TOPIC", "ParkingLot"]

PARKED_TOPIC: Final = "replicate/parked"
DEAD_LETTER_TOPIC: Final = "replicate/dead-letter"
_PARTITION: Final = 1
_READ_COUNT: Final = 1000
_BATCH_BYTES: Final = 8 << 20
_ROW_BYTES: Final = 400
"""About what the headers that say where a message came from add to it."""
MAX_RELEASE: Final = 200_000
"""Messages that one release takes out: it is decoded and merged as one, in memory."""


class ParkingLot:
    """What a pipeline has set aside.

    Args:
        checkpoint: The pipeline's checkpoint directory.
        delayed: The delayed topic.
        ledger: The pipeline's ledger.
    """

    def __init__(self, checkpoint: Path, delayed: str, ledger: Ledger) -> None:
        self._ledger = ledger
        self._delayed = delayed
        # Beneath the client: a producer refuses the reserved headers that are written here.
        self._broker = Broker(open_directory(str((checkpoint / "log").resolve())))
        self._log = Client(self._broker)
        for topic in (PARKED_TOPIC, delayed, DEAD_LETTER_TOPIC):
            self._log.create_topic(topic, partitions=1, limits="wide", if_not_exists=True)
        self._again: dict[str, dict[Coordinates, int]] = {}

    def close(self) -> None:
        """Close the log."""
        self._log.close()

    def begin_batch(self, batch_id: int) -> None:
        """Begin a micro-batch, or begin it again after a crash."""
        ends = {topic: self._end(topic) for topic in (PARKED_TOPIC, DEAD_LETTER_TOPIC)}
        mark = json.loads(self._ledger.mark("batch") or "null")
        if mark is not None and mark["id"] == batch_id:
            self._again = {topic: dict(self._placed(topic, mark["ends"][topic], end)) for topic, end in ends.items()}
        else:
            self._again = {}
            self._ledger.set_mark("batch", json.dumps({"id": batch_id, "ends": ends}))

    def park(self, batches: Iterable[pa.RecordBatch], now_us: int) -> int:
        """Set raw messages aside until their schema comes; return how many.

        Args:
            batches: RAW_SCHEMA, with schema ids.
            now_us: The time, microseconds since 1970 UTC.
        """
        rows = [row for batch in batches for row in batch.to_pylist()]
        offsets = self._put(PARKED_TOPIC, rows)
        self._ledger.park(
            Parked(row["topic"], row["partition"], row["offset"], row["schema_id"], now_us, PARKED_TOPIC, offset)
            for row, offset in zip(rows, offsets, strict=True)
        )
        return len(rows)

    def bury(self, batches: Iterable[pa.RecordBatch]) -> int:
        """Move raw messages to the dead letter; return how many.

        Args:
            batches: RAW_SCHEMA, with reasons.
        """
        rows = [row for batch in batches for row in batch.to_pylist()]
        self._put(DEAD_LETTER_TOPIC, rows)
        return len(rows)

    def overdue(self, before_us: int) -> list[Parked]:
        """Return parked messages that have waited since before a time."""
        return self._ledger.overdue(before_us)

    def delay(self, messages: list[Parked]) -> None:
        """Move parked messages to the delayed topic."""
        offsets = self._put(self._delayed, list(self._rows(messages)))
        self._ledger.delay(
            Parked(m.topic, m.partition, m.offset, m.schema_id, m.since_us, self._delayed, offset)
            for m, offset in zip(messages, offsets, strict=True)
        )

    def give_up(self, messages: list[Parked], reason: str) -> None:
        """Move parked messages to the dead letter."""
        self._put(DEAD_LETTER_TOPIC, [{**row, "reason": reason} for row in self._rows(messages)])
        self._ledger.forget(messages)

    def next_release(self, schema_ids: list[str]) -> tuple[int, pa.RecordBatch] | None:
        """Take out messages whose schemas have come, first those of a release that a crash interrupted.

        Args:
            schema_ids: Schemas that have come.

        Returns:
            The release's number, which stays the same until finish_release(), and its raw messages; None where nothing waits.
        """
        number = self._ledger.unfinished_release()
        if number is None:
            number = self._ledger.begin_release(schema_ids, MAX_RELEASE) if schema_ids else None
        if number is None:
            return None
        rows = list(self._rows(self._ledger.released(number)))
        return number, pa.RecordBatch.from_pylist(rows, schema=RAW_SCHEMA)

    def finish_release(self, number: int) -> None:
        """Forget a release: its tables have it."""
        self._ledger.finish_release(number)

    def _put(self, topic: str, rows: list[dict[str, Any]]) -> list[int]:
        """Append messages that are not there yet, and return where each lies."""
        placed = dict(self._again.get(topic, {}))
        fresh = [row for row in rows if coordinates_of(row) not in placed]
        name = TopicName.parse(topic)
        for batch in _batches(fresh):
            first = self._broker.messages.send(name, _PARTITION, encode_sent([_message(row) for row in batch]))
            placed |= {coordinates_of(row): first + index for index, row in enumerate(batch)}
        return [placed[coordinates_of(row)] for row in rows]

    def _end(self, topic: str) -> int:
        return self._log.topic(topic).partitions[_PARTITION - 1].end_offset

    def _placed(self, topic: str, from_offset: int, until_offset: int) -> Iterator[tuple[Coordinates, int]]:
        """Read which messages of the source lie in a range of a topic, and where."""
        while from_offset < until_offset:
            for offset, message in self._read(topic, from_offset):
                yield _origin(message), offset
                from_offset = offset + 1

    def _rows(self, messages: list[Parked]) -> Iterator[dict[str, Any]]:
        """Read messages back from the log as rows of RAW_SCHEMA, in the order asked for."""
        wanted = {(m.log_topic, m.log_offset): m for m in messages}
        found: dict[Coordinates, dict[str, Any]] = {}
        for topic in {m.log_topic for m in messages}:
            offsets = sorted(offset for name, offset in wanted if name == topic)
            position = 0
            while position < len(offsets):
                for offset, message in self._read(topic, offsets[position]):
                    parked = wanted.get((topic, offset))
                    if parked is not None:
                        found[_origin(message)] = _row(message, parked)
                    while position < len(offsets) and offsets[position] <= offset:
                        position += 1
        for m in messages:
            yield found[m.topic, m.partition, m.offset]

    def _read(self, topic: str, from_offset: int) -> list[tuple[int, Message]]:
        """Read the next messages of a topic, at least one."""
        messages = self._log.poll(topic, _PARTITION, start=from_offset, count=_READ_COUNT)
        if not messages:
            raise CorruptLogError(
                f"the pipeline's own log has nothing at offset {from_offset} of {topic}, and its ledger says it has",
                advice="Has the checkpoint been changed by hand? Restore its log and ledger together",
            )
        return [(message.offset, message) for message in messages if message.offset is not None]


def _batches(rows: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Cut rows into batches of about _BATCH_BYTES."""
    batch: list[dict[str, Any]] = []
    size_bytes = 0
    for row in rows:
        size_bytes += sum(len(row[name] or b"") for name in ("payload", "key", "headers")) + _ROW_BYTES
        if batch and size_bytes > _BATCH_BYTES:
            yield batch
            batch, size_bytes = [], 0
        batch.append(row)
    if batch:
        yield batch


def _origin(message: Message) -> Coordinates:
    headers = message.headers
    return (
        headers["hs.origin.topic"].as_string(),
        headers["hs.origin.partition"].as_int32(),
        headers["hs.origin.offset"].as_int64(),
    )


def _message(row: dict[str, Any]) -> Message:
    """Return a raw row as a message of the pipeline's own log."""
    headers = decode_headers(row["headers"] or b"")
    origin = [
        ("hs.origin.topic", string(row["topic"])),
        ("hs.origin.partition", int32(row["partition"])),
        ("hs.origin.offset", int64(row["offset"])),
        ("hs.origin.timestamp", int64(row["timestamp_us"])),
    ]
    origin += [(f"hs.{name}", string(row[name])) for name in ("schema_id", "reason") if row[name] is not None]
    return Message(payload=row["payload"], key=row["key"], headers=headers.with_(*origin))


def _row(message: Message, parked: Parked) -> dict[str, Any]:
    headers = message.headers
    for name in ("topic", "partition", "offset", "timestamp"):
        headers = headers.without(f"hs.origin.{name}")
    headers = headers.without("hs.schema_id")
    return {
        "topic": parked.topic,
        "partition": parked.partition,
        "offset": parked.offset,
        "timestamp_us": message.headers["hs.origin.timestamp"].as_int64(),
        "key": message.key,
        "headers": encode_headers(headers),
        "payload": message.payload,
        "schema_id": parked.schema_id,
        "reason": None,
    }
