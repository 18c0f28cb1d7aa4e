"""Batch reads of a log, by real Spark."""

from __future__ import annotations

import zlib
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

import headstream as hs
from headstream.core.codec.binary import decode_headers
from headstream.core.model.identifiers import format_message_id
from headstream.spark.source.options import COLUMN_NAMES, RowShape
from headstream.spark.source.source import spark_schema
from tests.support.log.stored_logs import data_file

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def read(spark: SparkSession, url: str, subscribe: str = "shop/orders", **options: str) -> DataFrame:
    return spark.read.format("headstream").option("url", url).option("subscribe", subscribe).options(**options).load()


def send(url: str, count: int, topic: str = "shop/orders", *, partitions: int = 1, **headers: Any) -> None:
    """Send messages whose payloads are their numbers, in turn to each partition."""
    with hs.connect(url) as log:
        log.create_topic(topic, partitions=partitions, if_not_exists=True)
        with log.producer(topic) as producer:
            for number in range(count):
                producer.send(str(number).encode(), headers=headers, partition=1 + number % partitions)


def test_source_has_the_documented_columns(spark: SparkSession, url: str) -> None:
    send(url, 1)
    assert read(spark, url).dtypes == [
        ("stream", "string"), ("topic", "string"), ("partition", "int"), ("offset", "bigint"), ("timestamp", "timestamp"),
        ("state", "string"), ("id", "string"), ("checksum", "bigint"), ("key", "binary"), ("headers", "variant"),
        ("headers_repeated", "boolean"), ("payload", "binary"),
    ]  # fmt: skip
    assert dict(read(spark, url, headers="binary").dtypes)["headers"] == "binary"
    assert [name for name in read(spark, url, headers="none").columns if "header" in name] == []


@pytest.mark.parametrize("url", ["file", "tcp"], indirect=True)
def test_source_gives_every_message_as_a_poll_does(spark: SparkSession, url: str) -> None:
    with hs.connect(url) as log:
        for topic in ("shop/orders", "shop/returns"):
            log.create_topic(topic, partitions=3, limits="wide")
            with log.producer(topic) as producer:
                for number in range(50):
                    key = str(number).encode() if number % 3 else None
                    payload = None if number % 7 == 0 else b"" if number % 7 == 1 else b"%d" % number
                    producer.send(payload, key=key, headers=[("n", number), ("n", "again"), ("x", 0.5)][: number % 4])
        expected = {}
        for topic in ("shop/orders", "shop/returns"):
            for partition in (1, 2, 3):
                for message in log.poll(topic, partition, start="first", count=1000):
                    expected[topic, partition, message.offset] = message
    rows = (
        read(spark, url, "shop/orders,shop/returns", headers="binary").selectExpr("*", "unix_micros(timestamp) AS us").collect()
    )
    assert len(rows) == len(expected) == 100
    for row in rows:
        message = expected[f"{row.stream}/{row.topic}", row.partition, row.offset]
        assert row.us == message.timestamp
        assert row.id == format_message_id(message.id)
        assert (row.state, row.checksum) == ("available", message.checksum)
        assert (row.key, row.payload) == (message.key, message.payload)
        assert decode_headers(bytes(row.headers)) == message.headers
        assert row.headers_repeated == (len(message.headers) >= 2)


def test_source_reads_the_example_of_the_documentation(spark: SparkSession, url: str) -> None:
    with hs.connect(url) as log:
        log.create_topic("shop/orders", partitions=4)
        with log.producer("shop/orders") as producer:
            producer.send(b"first", key=b"42", headers={"attempt": hs.uint8(3), "source": "web", "total": 12.5})
            producer.send(b"second", key=b"42", headers={"source": "shop"})
    columns = ("variant_get(headers, '$.attempt', 'int')", "CAST(payload AS string)", "partition", "offset", "timestamp")
    first, second = read(spark, url).orderBy("offset").selectExpr(*columns).collect()
    assert (first[0], first[1], first[3]) == (3, "first", 0)
    assert (second[0], second[1], second[3]) == (None, "second", 1)
    assert first.partition == second.partition
    assert first.timestamp <= second.timestamp


KINDS: list[tuple[str, hs.HeaderValue, str, object]] = [
    ("raw", hs.raw(b"\x00\xff"), "binary", b"\x00\xff"),
    ("string", hs.string("grüße"), "string", "grüße"),
    ("long", hs.string("x" * 300), "string", "x" * 300),
    ("true", hs.bool(True), "boolean", True),
    ("false", hs.bool(False), "boolean", False),
    ("int8", hs.int8(-128), "tinyint", -128),
    ("int16", hs.int16(-32768), "smallint", -32768),
    ("int32", hs.int32(-(1 << 31)), "int", -(1 << 31)),
    ("int64", hs.int64(-(1 << 63)), "bigint", -(1 << 63)),
    ("int128", hs.int128(-(10**37)), "decimal(38,0)", Decimal(-(10**37))),
    ("uint8", hs.uint8(255), "smallint", 255),
    ("uint16", hs.uint16(65535), "int", 65535),
    ("uint32", hs.uint32((1 << 32) - 1), "bigint", (1 << 32) - 1),
    ("uint64", hs.uint64((1 << 64) - 1), "decimal(20,0)", Decimal((1 << 64) - 1)),
    ("uint128", hs.uint128(10**37), "decimal(38,0)", Decimal(10**37)),
    ("beyond", hs.uint128((1 << 128) - 1), "string", str((1 << 128) - 1)),
    ("float32", hs.float32(0.5), "float", 0.5),
    ("float64", hs.float64(0.1), "double", 0.1),
    ("null", hs.null(), "string", None),
    ("char", hs.char("é"), "string", "é"),
]


def test_source_gives_headers_of_every_kind_as_variant(spark: SparkSession, url: str) -> None:
    with hs.connect(url) as log:
        log.create_topic("shop/orders", limits="wide")
        with log.producer("shop/orders") as producer:
            producer.send(b"x", headers=[(name, value) for name, value, _, _ in KINDS])
            producer.send(b"none")
    rows = read(spark, url).orderBy("offset")
    full, empty = rows.selectExpr(*(f"headers:{name}::{kind} AS {name}" for name, _, kind, _ in KINDS)).collect()
    assert full.asDict() == {name: expected for name, _, _, expected in KINDS}
    assert set(empty.asDict().values()) == {None}
    kinds, text = rows.selectExpr("schema_of_variant(headers)", "to_json(headers)").collect()[0]
    assert ("int64: BIGINT" in kinds, "uint64: DECIMAL(20,0)" in kinds, "float32: FLOAT" in kinds) == (True, True, True)
    assert ("raw: BINARY" in kinds, "beyond: STRING" in kinds, "true: BOOLEAN" in kinds, "null: VOID" in kinds) == (True,) * 4
    assert '"null":null' in text


def test_source_says_when_a_variant_hides_a_repeated_header(spark: SparkSession, url: str) -> None:
    with hs.connect(url) as log:
        log.create_topic("shop/orders")
        with log.producer("shop/orders") as producer:
            producer.send(b"x", key=b"k", headers=[("a", 1), ("b", 2), ("a", "last")])
            producer.send(b"y", key=b"k", headers=[("a", 1), ("b", 2)])
    frame = read(spark, url).orderBy("offset")
    rows = frame.selectExpr("variant_get(headers, '$.a', 'string') AS a", "headers_repeated", "key").collect()
    assert [(row.a, row.headers_repeated, bytes(row.key)) for row in rows] == [("last", True, b"k"), ("1", False, b"k")]


def test_source_reads_all_when_there_are_many_batches(spark: SparkSession, url: str) -> None:
    send(url, 45_000, partitions=2)
    frame = read(spark, url)
    assert frame.selectExpr(
        "count(*)", "sum(CAST(CAST(payload AS string) AS bigint))", "count(DISTINCT partition, offset)"
    ).first() == (45_000, sum(range(45_000)), 45_000)
    wrong = frame.where("checksum <> crc32(payload) OR state <> 'available' OR length(id) <> 36").count()
    assert wrong == 0
    assert [row.checksum for row in frame.where("payload = CAST('0' AS binary)").collect()] == [zlib.crc32(b"0")]


def test_source_leaves_out_messages_that_are_not_available_unless_asked(spark: SparkSession, url: str) -> None:
    send(url, 6)
    # The state is the byte after the offset of a stored message, and may change in place.
    path, size = data_file(url), 45 + 1
    stored = bytearray(path.read_bytes())
    assert len(stored) == 6 * size
    for number, state in ((1, 10), (2, 20), (3, 30), (4, 77)):
        stored[number * size + 8] = state
    path.write_bytes(stored)

    def offsets(**options: str) -> list[tuple[int, str]]:
        return [(row.offset, row.state) for row in read(spark, url, **options).orderBy("offset").collect()]

    assert offsets() == [(0, "available"), (5, "available")]
    assert offsets(states="poisoned,unknown(77)") == [(2, "poisoned"), (4, "unknown(77)")]
    assert offsets(states="marked_for_deletion", headers="none") == [(3, "marked_for_deletion")]
    assert [state for _, state in offsets(states="all")] == [
        "available", "unavailable", "poisoned", "marked_for_deletion", "unknown(77)", "available",
    ]  # fmt: skip


def test_source_reads_a_range_when_offsets_are_given(spark: SparkSession, url: str) -> None:
    send(url, 40, partitions=2)
    ranges = {"startingOffsets": '{"shop/orders": {"1": 5, "2": -2}}', "endingOffsets": '{"shop/orders": {"1": 12, "2": 3}}'}
    rows = read(spark, url, **ranges).select("partition", "offset").orderBy("partition", "offset").collect()
    assert [tuple(row) for row in rows] == [(1, offset) for offset in range(5, 12)] + [(2, offset) for offset in range(3)]
    assert read(spark, url, startingOffsets='{"shop/orders": {"1": -1, "2": -1}}').count() == 0


def test_source_splits_and_coalesces_tasks(spark: SparkSession, url: str) -> None:
    send(url, 100, partitions=4)
    assert read(spark, url).rdd.getNumPartitions() == 1
    split = read(spark, url, minPartitions="10")
    assert split.rdd.getNumPartitions() >= 10
    assert split.selectExpr("count(*)", "count(DISTINCT partition, offset)").first() == (100, 100)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"startOffsets": "earliest"}, "unknown option 'startoffsets'"),
        ({"headers": "list"}, "headers must be one of"),
        ({"maxOffsetsPerTrigger": "5"}, "maxOffsetsPerTrigger is supported only in streams"),
        ({"startingOffsets": '{"shop/orders": {"1": 900}}'}, "shop/orders partition 1"),
        *(
            pytest.param(*case, marks=pytest.mark.nightly)
            for case in (
                ({"startingOffsets": '{"shop/orders": {"7": 0}}'}, "startingOffsets names shop/orders partition 7"),
                (
                    {"startingOffsets": '{"shop/orders": {"1": 3}}', "endingOffsets": '{"shop/orders": {"1": 2}}'},
                    "endingOffsets ends shop/orders partition 1 at offset 2",
                ),
                ({"subscribe": "shop/nothing"}, "there is no topic 'shop/nothing'"),
                ({"subscribe": "nothing/orders"}, "there is no stream 'nothing'"),
                ({"subscribe": "orders"}, "'orders' is not a topic"),
                ({"url": "headstream://host:8090"}, "Write headstream://user:password@"),
                ({"url": "file:///proc/self"}, "NotALogError"),
                ({"url": "file:///nowhere/at/all"}, "the directory contains no log"),
            )
        ),
    ],
)
def test_source_says_what_is_wrong_when_it_cannot_read(spark: SparkSession, url: str, options: dict[str, str], said: str) -> None:
    send(url, 4)
    with pytest.raises(PySparkException) as raised:
        read(spark, **{"url": url, **options}).count()
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("columns", "headers"),
    [("payload,offset", "variant"), ("headers_repeated,id", "binary"), ("headers", "variant"), ("key", "none")],
)
def test_source_decodes_only_the_columns_asked_for(spark: SparkSession, url: str, columns: str, headers: str) -> None:
    send(url, 20, n=1)
    names = columns.split(",")
    whole = read(spark, url, headers=headers).orderBy("offset").select(*names)
    chosen = read(spark, url, headers=headers, columns=columns)
    assert chosen.schema == whole.schema
    assert str(chosen.collect()) == str(whole.collect())  # a VariantVal equals nothing but itself
    assert chosen.count() == 20


def test_source_refuses_a_schema_of_the_users_own(spark: SparkSession, url: str) -> None:
    send(url, 1)
    reader = spark.read.format("headstream").option("url", url).option("subscribe", "shop/orders")
    with pytest.raises(PySparkException, match="source has fixed columns"):
        reader.schema("payload BINARY").load().count()
    assert reader.schema(spark_schema(RowShape(COLUMN_NAMES))).load().count() == 1
