"""Replicate's Avro, side by side in one run: the compiled codec, the same interpreted, fastavro; results in results/avro.txt.

split    where the parts of 10,000 envelopes are, and which rows have which schema id
rows     rows of 10 columns to columns: with their Replicate headers, and the bare columns as other decoders are measured
batch    a batch of 10,000 envelopes to columns, 1 and 30 schema ids: split, group, decode
"""

from __future__ import annotations

import argparse
import io
import json
import random
import sys
import time
from array import array
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import fastavro

from headstream.replicate.codec import Change, ColumnMetadata, data_message, data_schema, decode_envelope, envelopes
from headstream.replicate.codec.avro import rows as avro
from headstream.replicate.codec.avro.schema import parse_schema
from headstream.replicate.codec.avro.values import encode_value

sys.path.insert(0, str(Path(__file__).parents[1]))
from bench.machine import Report
from tests.support import kernels

ROWS = 10_000
FEW = 500  # rows for the slow ones: fastavro and the interpreted codec
KINDS = ["INT8", "INT4", "WSTRING", "NUMERIC", "DATE", "DATETIME", "REAL8", "BOOLEAN", "STRING", "INT2"]
COLUMNS = [ColumnMetadata(f"column_{place}", place + 1, kind, precision=12, scale=2) for place, kind in enumerate(KINDS)]
SCHEMA = data_schema(COLUMNS, logical_types=True)
ENVELOPE = {
    "type": "record",
    "name": "MessageEnvelope",
    "fields": [
        {"name": "magic", "type": {"type": "fixed", "name": "Magic", "size": 5}},
        {"name": "type", "type": "string"},
        {"name": "headers", "type": ["null", {"type": "map", "values": "string"}]},
        {"name": "messageSchemaId", "type": ["null", "string"]},
        {"name": "messageSchema", "type": ["null", "string"]},
        {"name": "message", "type": "bytes"},
    ],
}

Cases = dict[str, tuple[int, Callable[[], object]]]


def make_row(source: random.Random) -> dict[str, Any]:
    """Return one row, one value in ten null."""
    values = [
        source.randrange(1 << 40),
        source.randrange(1 << 30),
        f"Kundin {source.randrange(1_000_000)} Größe",
        Decimal(source.randrange(10**9)).scaleb(-2),
        date(2020, 1, 1) + timedelta(days=source.randrange(2000)),
        datetime(2024, 1, 1, tzinfo=UTC) + timedelta(microseconds=source.randrange(10**13)),
        source.random() * 1000,
        source.random() < 0.5,
        f"note {source.randrange(1000)}",
        source.randrange(30_000),
    ]
    return {column.name: None if source.random() < 0.1 else value for column, value in zip(COLUMNS, values, strict=True)}


def make_messages(ids: int, source: random.Random) -> list[bytes]:
    """Return whole envelopes, three of ten an update with its row before, each of one of `ids` schemas."""
    messages = []
    for number in range(ROWS):
        update = source.random() < 0.3
        change = Change(
            "UPDATE" if update else "INSERT",
            make_row(source),
            make_row(source) if update else None,
            f"2024050607080912{number:019d}",
            "2024-05-06T07:08:09.123",
            "00000000.01ab5068.00000001.0000.02.0000:88.67945.16",
            f"{number // 10:032X}",
            b"\x07\x00",
            b"\xff\x03",
            number % 10 + 1,
            number % 10 == 9,
        )
        messages.append(data_message(SCHEMA, change, schema_id=f"{source.randrange(ids):032X}"))
    return messages


def ranges_of(messages: list[bytes]) -> tuple[bytes, memoryview, memoryview]:
    """Return messages back to back, and where each starts and ends."""
    ends = array("q")
    for message in messages:
        ends.append((ends[-1] if ends else 0) + len(message))
    starts = array("q", [0, *ends[:-1]])
    return b"".join(messages), memoryview(starts), memoryview(ends)


def offsets_of(messages: list[bytes]) -> bytes:
    """Return the int32 offsets of messages that lie back to back."""
    offsets = array("i", [0])
    for message in messages:
        offsets.append(offsets[-1] + len(message))
    return offsets.tobytes()


def compare(report: Report, title: str, cases: Cases, rounds: int) -> None:
    """Run the cases in turn, `rounds` times, and report the best rate of each, and its ratio to the first."""
    times: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(rounds):
        for name, (_, run) in cases.items():
            began = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - began)
    report.line(f"\n{title}")
    first = 0.0
    for name, (count, _) in cases.items():
        rate = count / min(times[name])
        first = first or rate
        report.line(f"  {name:<52} {rate / 1e6:9.3f} M/s {rate / first:10.4f}")


def read_by_fastavro(messages: list[bytes], schema: Any) -> Callable[[], object]:
    """Return a run of fastavro over messages: Python records, not columns."""
    known = fastavro.parse_schema(schema)
    return lambda: [fastavro.schemaless_reader(io.BytesIO(message), known) for message in messages]


def decode_batch(splitter: ModuleType, decoder: ModuleType, data: bytes, offsets: bytes) -> int:
    """Split, group and decode one batch; return its good rows."""
    found = splitter.split_envelopes(offsets, data)
    plan = avro.compile_rows(SCHEMA)
    groups = splitter.group_by_schema(found, data)
    return sum(decoder.decode_rows(plan, data, found.payload_start, found.payload_end, rows).count for rows in groups.values())


def measure_split(report: Report, messages: list[bytes], rounds: int) -> None:
    """Envelopes alone."""
    data, offsets = b"".join(messages), offsets_of(messages)
    few = messages[:FEW]
    few_data, few_offsets = b"".join(few), offsets_of(few)
    slow = kernels.interpreted("headstream.replicate.codec.envelopes")
    cases: Cases = {
        "split_envelopes": (ROWS, lambda: envelopes.split_envelopes(offsets, data)),
        "split_envelopes, interpreted": (FEW, lambda: slow.split_envelopes(few_offsets, few_data)),
        "decode_envelope, a message at a time": (FEW, lambda: [decode_envelope(message) for message in few]),
        "fastavro": (FEW, read_by_fastavro(few, ENVELOPE)),
    }
    compare(report, f"split: {ROWS} envelopes of {len(data) // ROWS} bytes", cases, rounds)
    found = envelopes.split_envelopes(offsets, data)
    compare(report, "group", {"group_by_schema, 30 ids": (ROWS, lambda: envelopes.group_by_schema(found, data))}, rounds)


def measure_rows(report: Report, title: str, schema: str, messages: list[bytes], rounds: int) -> None:
    """Rows alone, whole and in small groups."""
    plan = avro.compile_rows(schema)
    data, starts, ends = ranges_of(messages)
    few = messages[:FEW]
    few_data, few_starts, few_ends = ranges_of(few)
    slow = kernels.interpreted("headstream.replicate.codec.avro.rows")
    small = [(starts[at : at + 333], ends[at : at + 333]) for at in range(0, ROWS - 333, 333)]
    good = avro.decode_rows(plan, data, starts, ends)
    assert good.count == ROWS
    cases: Cases = {
        "decode_rows": (ROWS, lambda: avro.decode_rows(plan, data, starts, ends)),
        "decode_rows, 333 rows a call": (333 * len(small), lambda: [avro.decode_rows(plan, data, *pair) for pair in small]),
        "decode_rows, interpreted": (FEW, lambda: slow.decode_rows(plan, few_data, few_starts, few_ends)),
        "fastavro": (FEW, read_by_fastavro(few, json.loads(schema))),
    }
    compare(report, f"{title}: {len(plan.columns)} columns, {len(data) // ROWS} bytes a row", cases, rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--dry", action="store_true", help="do not write the result")
    options = parser.parse_args()
    source = random.Random(7)
    one, many = make_messages(1, source), make_messages(30, source)
    bare = json.loads(SCHEMA)
    bare["fields"] = bare["fields"][:1]
    bare_schema = json.dumps(bare)
    bare_type = parse_schema(bare_schema)
    with Report("avro", write=not options.dry) as report:
        report.line(f"the fastest of {options.rounds} alternating runs (other programs use the machine); rows/s on one core")
        measure_split(report, many, options.rounds)
        rows = [message for envelope in map(decode_envelope, one) if isinstance(message := envelope.message, bytes)]
        measure_rows(report, "rows: 10 columns with beforeData and headers", SCHEMA, rows, options.rounds)
        rows = [encode_value(bare_type, {"data": make_row(source)}) for _ in range(ROWS)]
        measure_rows(report, "rows: 10 columns and nothing else", bare_schema, rows, options.rounds)
        batches = {"1 schema id": one, "30 schema ids": many}
        prepared = {name: (b"".join(messages), offsets_of(messages)) for name, messages in batches.items()}
        cases: Cases = {
            name: (ROWS, lambda parts=parts: decode_batch(envelopes, avro, *parts))  # type: ignore[misc]
            for name, parts in prepared.items()
        }
        compare(report, f"batch: {ROWS} envelopes to columns", cases, options.rounds)


if __name__ == "__main__":
    main()
