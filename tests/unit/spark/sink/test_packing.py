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
from headstream.core.model.header_values import HeaderValue
from headstream.core.model.message import Message
from headstream.core.model.partitioning import partition_of
from headstream.errors import HeadstreamError, InvalidOptionError
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


def headers_of(value: Any, kind: pa.DataType) -> list[tuple[str, HeaderValue]]:
    [packed] = pack({"payload": pa.array(["p"]), "headers": pa.array([value], kind)}, WIDE)
    if isinstance(packed, BadRow):
        raise packed.reason
    [message] = decode(packed, WIDE)
    return list(message.headers.items())


ARRAY = pa.list_(pa.struct([("key", pa.string()), ("kind", pa.string()), ("value", pa.binary())]))


def test_headers_of_every_shape_keep_what_they_say() -> None:
    entries = [("a", "uint8", b"\x07"), ("a", "string", b"x"), ("b", "unknown(77)", b"?"), ("n", "null", None)]
    value = [dict(zip(("key", "kind", "value"), entry, strict=True)) for entry in entries]
    expected = [("a", kinds.uint8(7)), ("a", kinds.string("x")), ("n", kinds.null())]
    assert headers_of([value[0], value[1], value[3]], ARRAY) == expected
    assert headers_of(None, ARRAY) == []
    with pytest.raises(HeadstreamError, match=r"unknown\(77\)"):
        headers_of(value, ARRAY)
    with pytest.raises(HeadstreamError, match="the value of header 'a' is null"):
        headers_of([{"key": "a", "kind": "string", "value": None}], ARRAY)
    with pytest.raises(HeadstreamError, match="header 'a' is of kind uint7"):
        headers_of([{"key": "a", "kind": "uint7", "value": b""}], ARRAY)
    with pytest.raises(HeadstreamError, match="width of its kind"):
        headers_of([{"key": "a", "kind": "int64", "value": b"1"}], ARRAY)
    pairs = [("a", 1), ("b", None)]
    assert headers_of(pairs, pa.map_(pa.string(), pa.int16())) == [
        ("a", kinds.int16(1)),
        ("b", kinds.null()),
    ]
    assert headers_of([("a", "x")], pa.map_(pa.string(), pa.string())) == [("a", kinds.string("x"))]
    assert headers_of([("a", True)], pa.map_(pa.string(), pa.bool_())) == [("a", kinds.bool_(True))]


def test_bad_rows_are_found_among_good_ones_in_order() -> None:
    values = ["v" * 256 if number in (0, 37, 38, 99) else "v" for number in range(100)]
    batch = {"payload": pa.array([str(number) for number in range(100)]), "note": pa.array(values)}
    found = pack(batch, headerColumns="note")
    bad = [each for each in found if isinstance(each, BadRow)]
    assert [each.row for each in bad] == [0, 37, 38, 99]
    assert all("header value of 256 bytes" in str(each.reason) for each in bad)
    good = [int(m.payload or b"") for each in found if isinstance(each, Packed) for m in decode(each, IGGY)]
    assert good == [number for number in range(100) if number not in (0, 37, 38, 99)]


@pytest.mark.parametrize(
    ("columns", "options", "what"),
    [
        ({"n": pa.array([256], pa.int32())}, {"headerColumns": "n uint8"}, "does not fit uint8"),
        ({"n": pa.array([-1], pa.int32())}, {"headerColumns": "n uint8"}, "does not fit uint8"),
        ({"n": pa.array([-1], pa.int64())}, {"headerColumns": "n uint128"}, "does not fit uint128"),
        ({"id": pa.array([b"short"])}, {}, "that are not 16 bytes"),
        ({"partition": pa.array([4], pa.int64())}, {}, "partition has 4"),
        ({"partition": pa.array([1 << 40], pa.int64())}, {}, "out of bounds|not in range"),
        ({"headers": pa.array([b"\x06\0\0\0hs.key\x01\0\0\0\0"])}, {}, "reserved header"),
    ],
)
def test_a_value_that_cannot_be_sent_is_its_rows_fault(columns: dict[str, pa.Array], options: dict[str, str], what: str) -> None:
    [found] = pack({"payload": pa.array(["p"]), **columns}, IGGY, **options)
    assert isinstance(found, BadRow)
    assert found.row == 0
    with pytest.raises(HeadstreamError, match=what):
        raise found.reason


def test_a_compacted_topic_takes_rows_with_a_key_alone() -> None:
    target = Target("shop/orders", 1, is_wide=True, needs_key=True)
    batch = {"payload": pa.array(["a", "b"]), "key": pa.array([None, "k"], pa.string())}
    bad, good = pack(batch, target)
    assert isinstance(bad, BadRow)
    assert "without a key" in str(bad.reason)
    assert isinstance(good, Packed)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("a uint7", "uint7 is not a kind"),
        ("a,,b", "cannot be parsed at"),
        ("a b c", "cannot be parsed"),
        ("A, a", "names a column twice"),
    ],
)
def test_header_columns_say_what_cannot_be_read(text: str, what: str) -> None:
    with pytest.raises(InvalidOptionError, match=what):
        parse_sink_options({"url": "file:///x", "headerColumns": text})


def test_sink_options_are_read_and_refused_by_name() -> None:
    given = {"path": "file:///x y", "Topic": "a/b", "headercolumns": "`x total` int64, b.c", "commitTimeout": "5m"}
    options = parse_sink_options({**given, "badRowsPath": "file:///bad%20rows/", "txnAppId": "job", "txnVersion": "7"})
    assert options.log == "/x y"
    assert options.header_columns == (("x total", kinds.int64(1).kind), ("b.c", None))
    assert (options.bad_rows_path, options.commit_timeout_s, options.transaction) == ("/bad rows", 300, ("job", 7))
    for wrong, what in (
        ({"txnAppId": "x"}, "do not name a transaction"), ({"badRowsPath": "bad"}, "is not a directory"),
        ({"badRowsPath": "s3://x/y"}, "is not a directory"), ({"commitTimeout": "soon"}, "is not a duration"),
        ({"topic": "x"}, "topic: "), ({"headerColumn": "x"}, "Did you mean headerColumns"),
    ):  # fmt: skip
        with pytest.raises(InvalidOptionError, match=what):
            parse_sink_options({"url": "file:///x", **wrong})
