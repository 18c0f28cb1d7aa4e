"""Declared header columns over Kafka: of the headers that Spark's expressions choose they are what they are of all headers."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from headstream.core.codec.kafka import KafkaHeader
from headstream.spark.kafka.header_rows import HeaderDecoder
from headstream.spark.kafka.raw_headers import KAFKA_HEADERS, RawHeaders
from headstream.spark.source.header_columns import parse_header_columns
from headstream.spark.source.options import RowShape
from headstream.spark.source.source import spark_schema
from headstream.spark.workers.arrow_functions import arrow_function

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

_DECLARED = (
    "a BINARY, n INT, t STRING, f DOUBLE, yes BOOLEAN, big DECIMAL(38,0), `é x` BINARY, `hs.id` BINARY, `hs.kinds` STRING, "
    "`hs.state` STRING, `hs.other` BINARY, `ce_type` STRING, `content-type` BINARY, `kafka_deliveryAttempt` INT, "
    "`__connect.errors.topic` STRING, `spring_json_header_types` BINARY"
)
_NAMES = [column.name for column in parse_header_columns(_DECLARED)]
_OTHER_NAMES = [
    "",
    "b",
    "A",
    "k" * 255,
    "k" * 256,
    "é" * 128,
    "ce_specversion",
    "spring_json_header_types",
    "hs.kinds",
    "hs.state",
]
_VALUES = [
    None, b"", b"3", b"-3", b"300", b"x", b"true", b"1.5", b"nan", b"\xff\x00", b"\x00\x00\x00\x07", b"0" * 36, b'{"schema":',
    b'{"schema":{"type":"int32","optional":false},"payload":7}', b'{"schema":{"type":"bytes"},"payload":"AAA="}', b'"q"',
    b'{"a":"java.lang.String","n":"java.lang.Integer","t":"java.lang.String"}', b"00000000-0000-0000-0000-000000000007",
]  # fmt: skip
_KINDS = [
    b"a=raw&n=int32&t=string&f=float64&yes=bool&big=uint128", b"n=uint8,int64", b"t=string,string", b"%61=string", b"n=int32:07",
    b"a=200&%C3%A9%20x=raw", b"", b"\xff", None,
]  # fmt: skip
_SEED = 20
_ROWS = 2000


def _record(random_: random.Random) -> list[KafkaHeader] | None:
    """Return the headers of a record: mostly raw ones of few names, with what marks a record of another kind among them."""
    if random_.random() < 0.05:
        return None
    names = _NAMES if random_.random() < 0.4 else ["a", "n", "t", "b"]
    headers = [(random_.choice(names), random_.choice(_VALUES)) for _ in range(random_.choice((0, 1, 2, 3, 6, 70)))]
    if random_.random() < 0.3:
        headers.insert(random_.randint(0, len(headers)), (random_.choice(_OTHER_NAMES), random_.choice(_VALUES)))
    if random_.random() < 0.3:
        headers.append(("hs.kinds", random_.choice(_KINDS)))
    return headers


def _rows(spark: SparkSession, records: list[list[KafkaHeader] | None]) -> DataFrame:
    """Return records' headers with places, as Spark's Kafka source has them."""
    rows = [(headers, "t", number % 2, number) for number, headers in enumerate(records)]
    return spark.createDataFrame(rows, f"headers {KAFKA_HEADERS}, topic STRING, partition INT, offset BIGINT")


def _made(frame: DataFrame, shape: RowShape, *, everything: bool) -> list[tuple[Any, ...]]:
    """Return the declared columns by offset, of all headers, or of those that are chosen."""
    from pyspark.sql import functions as sf

    decoder = HeaderDecoder(shape)

    def decode(headers: pa.Array, topics: pa.Array, partitions: pa.Array, offsets: pa.Array, *raw: pa.Array) -> pa.Array:
        return decoder.decode(headers, (topics, partitions, offsets), raw)

    raw = RawHeaders(shape.header_columns, fail_on_mismatch=everything)
    coordinates = [raw.coordinate(name) for name in ("topic", "partition", "offset")]
    columns_of = arrow_function(decode, spark_schema(shape))
    decoded = raw.prepare(frame).withColumn("decoded", columns_of(raw.decoded_lists(), *coordinates, *raw.raw_values()))
    columns = [sf.col("decoded")[column.name].alias(column.name) for column in shape.header_columns]
    return [tuple(row) for row in decoded.orderBy("offset").select(*columns).collect()]


def _comparable(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple("nan" if isinstance(value, float) and math.isnan(value) else value for value in row)


def test_declared_columns_are_those_of_the_kernels_whatever_headers_a_record_has(spark: SparkSession) -> None:
    random_ = random.Random(_SEED)
    records = [_record(random_) for _ in range(_ROWS)]
    records += [[("a", b"1"), ("a", None)], [("n", b"3")], [("a", b"x"), ("ce_specversion", b"1.0"), ("ce_type", b"t")]]
    shape = RowShape((), "none", parse_header_columns(_DECLARED))
    frame = _rows(spark, records)
    by_kernels = HeaderDecoder(shape).decode(frame.select("headers").toArrow().column(0).combine_chunks())
    expected = [_comparable(tuple(row.values())) for row in by_kernels.to_pylist()]
    found = [_comparable(row) for row in _made(frame, shape, everything=False)]
    differing = [(records[number], row, found[number]) for number, row in enumerate(expected) if row != found[number]]
    assert len(found) == len(records)
    assert differing == []
    assert [_comparable(row) for row in _made(frame, shape, everything=True)] == expected


@pytest.mark.parametrize("declared", ["a BINARY", "n INT", "a BINARY, n INT, t STRING"])
def test_declared_columns_leave_python_the_records_that_it_has_something_to_do_with(spark: SparkSession, declared: str) -> None:
    wanted = parse_header_columns(declared)
    raw = RawHeaders(wanted, fail_on_mismatch=False)
    records: list[list[KafkaHeader] | None] = [
        None, [], [("b", b"1")], [("a", b"1"), ("b", b"2")], [("n", b"3"), ("t", b"x")], [("n", None)],
        [("a", b"1"), ("hs.kinds", b"a=string")], [("a", b"1"), ("", b"no key")], [("k" * 256, b"1")],
    ]  # fmt: skip
    frame = raw.prepare(_rows(spark, records)).select(
        "offset",
        raw.decoded_lists().alias("lists"),
        *(raw.coordinate(name).alias(f"at_{name}") for name in ("topic", "offset")),
        *(value.alias(f"raw_{number}") for number, value in enumerate(raw.raw_values())),
    )
    found = frame.orderBy("offset").collect()
    for number, (row, record) in enumerate(zip(found, records, strict=True)):
        assert [(header.key, header.value) for header in row.lists] == (record if number >= 6 else [])
        if number < 6:
            there = dict(record or ())
            values = [
                there.get(column.name) if column.type == "binary" else there.get(column.name) is not None for column in wanted
            ]
            assert [row[f"raw_{place}"] for place in range(len(wanted))] == values
        is_named = number >= 6 or any(column.type != "binary" and dict(record or ()).get(column.name) for column in wanted)
        assert (row.at_topic, row.at_offset) == (("t", number) if is_named else (None, None))
