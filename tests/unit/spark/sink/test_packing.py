"""Packer: Spark's rows to sent messages, against messages made one by one."""

from __future__ import annotations

import datetime
import uuid
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import from_arrow_schema

from headstream.core.codec.batch.stored.stamp import stamp
from headstream.core.codec.binary import decode_polled
from headstream.core.model import constructors as kinds
from headstream.core.model.message import Message
from headstream.core.model.partitioning import partition_of
from headstream.errors import InvalidOptionError
from headstream.spark.sink.columns import SinkColumns, plan_columns
from headstream.spark.sink.options import parse_sink_options
from headstream.spark.sink.packing import BadRow, Packed, Packer, Target

WIDE = Target("shop/orders", 3, is_wide=True, needs_key=False)
IGGY = Target("shop/orders", 3, is_wide=False, needs_key=False)
NAMES = "bool, int8, int16, int32, int64, int128, float32, float64, string, raw"
ARROW = {
    "payload": pa.binary(), "key": pa.string(), "id": pa.string(), "partition": pa.int32(),
    "timestamp": pa.timestamp("us", tz="UTC"), "bool": pa.bool_(), "int8": pa.int8(), "int16": pa.int16(), "int32": pa.int32(),
    "int64": pa.int64(), "int128": pa.decimal128(38, 0), "float32": pa.float32(), "float64": pa.float64(),
    "string": pa.string(), "raw": pa.binary(),
}  # fmt: skip


def plan(schema: pa.Schema, **options: str) -> SinkColumns:
    return plan_columns(from_arrow_schema(schema), parse_sink_options({"url": "file:///x", "topic": "shop/orders", **options}))


def decode(packed: Packed, target: Target) -> list[Message]:
    return list(decode_polled(stamp(packed.sent, 0, 5, bytes(16), target.is_wide).data))


def whole(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


TIMES = st.datetimes(datetime.datetime(1990, 1, 1), datetime.datetime(2100, 1, 1), timezones=st.just(datetime.UTC))
ROW = st.fixed_dictionaries(
    {
        "payload": st.none() | st.binary(max_size=20),
        "key": st.none() | st.text(max_size=9),
        "id": st.none() | st.uuids().map(str),
        "partition": st.none() | st.integers(1, 3),
        "timestamp": st.none() | TIMES,
        "bool": st.none() | st.booleans(), "int8": st.none() | whole(8), "int16": st.none() | whole(16),
        "int32": st.none() | whole(32), "int64": st.none() | whole(64),
        "int128": st.none() | st.integers(-(10**38) + 1, 10**38 - 1),
        "float32": st.none() | st.floats(width=32, allow_nan=False), "float64": st.none() | st.floats(allow_nan=False),
        "string": st.none() | st.text(max_size=9), "raw": st.none() | st.binary(max_size=9),
    }
)  # fmt: skip


def expect(row: dict[str, Any]) -> tuple[Any, ...]:
    headers = []
    for name in NAMES.split(", "):
        if row[name] is not None:
            headers.append((name, getattr(kinds, "bool_" if name == "bool" else name)(row[name])))
    if row["timestamp"] is not None:
        since = row["timestamp"] - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
        headers.append(("hs.timestamp", kinds.int64(since // datetime.timedelta(microseconds=1))))
    key = None if row["key"] is None else row["key"].encode()
    return row["payload"], key, headers


@settings(max_examples=60, deadline=None)
@given(st.lists(ROW, min_size=1, max_size=8), st.booleans())
def test_every_row_becomes_the_message_that_the_client_would_send(rows: list[dict[str, Any]], sliced: bool) -> None:
    from decimal import Decimal

    arrays = {
        name: pa.array([Decimal(r[name]) if name == "int128" and r[name] is not None else r[name] for r in rows], kind)
        for name, kind in ARROW.items()
    }
    batch = pa.RecordBatch.from_pydict(arrays)
    if sliced:
        batch, rows = batch.slice(len(rows) // 2), rows[len(rows) // 2 :]
    [packed] = Packer(plan(batch.schema, headerColumns=NAMES)).pack(batch, WIDE)
    assert isinstance(packed, Packed)
    messages = decode(packed, WIDE)
    assert [(m.payload, m.key, list(m.headers.items())) for m in messages] == [expect(row) for row in rows]
    for message, row in zip(messages, rows, strict=True):
        if row["id"] is not None and uuid.UUID(row["id"]).int:
            assert message.id == int.from_bytes(uuid.UUID(row["id"]).bytes, "little")
    targets = memoryview(packed.targets or b"").cast("i")
    for target, row in zip(targets, rows, strict=False):
        by_key = 0 if row["key"] is None else partition_of(row["key"].encode(), 3)
        assert target == (row["partition"] or by_key)


def pack(columns: dict[str, pa.Array], target: Target = IGGY, **options: str) -> list[Packed | BadRow]:
    batch = pa.RecordBatch.from_pydict(columns)
    return list(Packer(plan(batch.schema, **options)).pack(batch, target))


def test_a_compacted_topic_takes_rows_with_a_key_alone() -> None:
    target = Target("shop/orders", 1, is_wide=True, needs_key=True)
    batch = {"payload": pa.array(["a", "b"]), "key": pa.array([None, "k"], pa.string())}
    bad, good = pack(batch, target)
    assert isinstance(bad, BadRow)
    assert "must have a key" in str(bad.reason)
    assert isinstance(good, Packed)


def test_sink_options_are_read_and_refused_by_name() -> None:
    given = {"path": "file:///x y", "Topic": "a/b", "headercolumns": "`x total` int64, b.c", "commitTimeout": "5m"}
    options = parse_sink_options({**given, "badRowsPath": "file:///bad%20rows/", "txnAppId": "job", "txnVersion": "7"})
    assert options.log == "/x y"
    assert options.header_columns == (("x total", kinds.int64(1).kind), ("b.c", None))
    assert (options.bad_rows_path, options.commit_timeout_s, options.transaction) == ("/bad rows", 300, ("job", 7))
    for wrong, what in (
        ({"txnAppId": "x"}, "do not identify a transaction"), ({"badRowsPath": "bad"}, "is not a local directory"),
        ({"badRowsPath": "s3://x/y"}, "is not a local directory"), ({"commitTimeout": "soon"}, "is not a duration"),
        ({"topic": "x"}, "topic: "), ({"headerColumn": "x"}, "Did you mean headerColumns"),
    ):  # fmt: skip
        with pytest.raises(InvalidOptionError, match=what):
            parse_sink_options({"url": "file:///x", **wrong})
