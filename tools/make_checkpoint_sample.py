"""Make the sample checkpoint that later versions must open: python tools/make_checkpoint_sample.py tests/samples/checkpoint-0.3.0

It is made once a release and never again; a later release gets a sample of its own beside it. `checkpoint-3` is what version
0.1 wrote. Beside the directory it writes DIRECTORY.record, the same files as a record of a checkpoint in an object store. The
files of Replicate's schemas and of Spark's own checkpoint are not part of it.
"""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Final

import headstream as hs
from headstream.replicate.checkpoint.records import RecordWriter
from headstream.replicate.checkpoint.working_files import WorkingFiles
from headstream.replicate.parked.ledger import Ledger, ParkedBatch
from headstream.replicate.tables.table_memory import TableMemory, TableState

PARCELS: Final = (
    ParkedBatch(
        id=1, state="parked", cause="schema", schema_id="A", log_topic="replicate/parked", from_offset=0, until_offset=3,
        size_bytes=30, since_us=1_790_000_000_000_000, batch=1, logged_from_us=1_780_000_000_000_000,
        logged_until_us=1_780_000_000_000_009,
    ),
    ParkedBatch(
        id=2, state="dead", cause="message", table_schema="SHOP", table_name="orders", reason="cut short",
        log_topic="replicate/dead-letter", from_offset=0, until_offset=1, size_bytes=7, since_us=1_790_000_000_000_001, batch=1,
    ),
    ParkedBatch(
        id=3, state="parked", cause="transaction", table_schema="SHOP", table_name="orders", log_topic="replicate/parked",
        from_offset=3, until_offset=5, size_bytes=20, since_us=1_790_000_000_000_002, batch=2, transaction_key="SHOP/17",
    ),
)  # fmt: skip
"""What the sample's ledger holds."""
TABLE: Final = ("SHOP", "orders")
STATE: Final = TableState(
    newest_deletion="20260101000000000000000000000000017",
    forgotten="20260101000000000000000000000000003",
    deletion_times=[(1_790_000_000_000_000, "20260101000000000000000000000000017")],
    compacted_us=1_790_000_000_000_003,
    vacuumed_us=1_790_000_000_000_004,
    columns=["id", "total"],
    soft=True,
)
"""The state of the sample's table."""
PAYLOADS: Final = {"replicate/parked": [b"parked %d" % number for number in range(5)], "replicate/dead-letter": [b"cut sho"]}
"""The messages set aside, by their topic in the checkpoint's log."""


def make_sample(directory: Path) -> None:
    """Write a small checkpoint: three parked batches, a mark, the state of one table, and the log with the messages."""
    with closing(Ledger(directory / "ledger.sqlite")) as ledger:
        ledger.add(PARCELS)  # the ledger numbers them, from 1
        ledger.set_mark("sample", "3")
    with closing(TableMemory(directory / "tables.sqlite")) as memory:
        memory.keep(TABLE, STATE)
    with hs.connect((directory / "log").absolute().as_uri()) as log:
        for topic, payloads in PAYLOADS.items():
            log.create_topic(topic, limits="wide")
            with log.producer(topic) as producer:
                for payload in payloads:
                    producer.send(payload)
    (directory / "log" / "headstream.lock").unlink()
    for name in ("ledger.sqlite", "tables.sqlite"):
        with closing(sqlite3.connect(directory / name)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def make_record(directory: Path) -> bytes:
    """Return the files of a checkpoint as one record, which is small enough for no chunks."""
    files, chunks = WorkingFiles(directory), dict[int, bytes]()
    changes, writer = files.find_changes(), RecordWriter("commits", chunks.__setitem__)
    for change in changes.files:
        writer.add(change, files.data(changes, change))
    raw = writer.finish(1, "sample", 1_790_000_000_000_000)
    if chunks:
        raise ValueError("the sample is too big for one object")
    return raw


if __name__ == "__main__":
    place = Path(sys.argv[1])
    make_sample(place)
    place.with_name(f"{place.name}.record").write_bytes(make_record(place))
    for left in [*place.rglob("*.sqlite-wal"), *place.rglob("*.sqlite-shm")]:  # of the reading; they are empty
        left.unlink()
