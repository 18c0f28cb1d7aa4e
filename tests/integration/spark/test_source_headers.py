"""The shapes of headers, and headers with columns of their own, by real Spark."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

import headstream as hs
from headstream.core.model.header_values import KIND_NAMES, HeaderValue
from tests.support.log.stored_logs import patch_stored

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def read(spark: SparkSession, url: str, **options: str) -> DataFrame:
    return spark.read.format("headstream").option("url", url).option("subscribe", "shop/orders").options(**options).load()


def send(url: str, *headers: list[tuple[str, Any]]) -> list[hs.Message]:
    """Send a message with each of these headers, and return them as a poll gives them."""
    with hs.connect(url) as log:
        log.create_topic("shop/orders", limits="wide", if_not_exists=True)
        with log.producer("shop/orders") as producer:
            for pairs in headers:
                producer.send(b"x", key=b"k", headers=pairs)
        return list(log.poll("shop/orders", 1, start="first", count=100))


PAIRS: list[tuple[str, Any]] = [
    ("attempt", hs.uint8(3)), ("source", "web"), ("total", 12.5), ("source", "shop"), ("raw", b"\x00\xff"), ("n", hs.null()),
    ("big", hs.uint128((1 << 128) - 1)), ("c", hs.char("é")), ("ok", True), ("f", hs.float32(0.5)), ("i", -7),
]  # fmt: skip


def test_array_gives_every_header_in_order_with_its_kind_and_bytes(spark: SparkSession, url: str) -> None:
    (message, _) = send(url, PAIRS, [])
    full, empty = read(spark, url, headers="array").orderBy("offset").collect()
    pairs = [(header.key, header.kind, bytes(header.value)) for header in full.headers]
    assert pairs == [(key, KIND_NAMES[value.kind], value.data) for key, value in message.headers.items()]
    codes = {name: code for code, name in KIND_NAMES.items()}
    assert hs.Headers([(key, HeaderValue(codes[kind], data)) for key, kind, data in pairs]) == message.headers
    assert (full.headers_repeated, empty.headers_repeated, empty.headers) == (True, False, [])


def test_map_gives_each_key_once_with_its_last_value(spark: SparkSession, url: str) -> None:
    send(url, PAIRS, [])
    rows = read(spark, url, headers="map").orderBy("offset")
    full, empty = rows.selectExpr(
        "headers['attempt']::int AS attempt", "headers['source']::string AS source", "headers['total']::double AS total",
        "headers['raw']::binary AS raw", "headers['nothing']::int AS nothing", "map_keys(headers) AS keys", "headers_repeated",
    ).collect()  # fmt: skip
    assert full.asDict() == {
        "attempt": 3, "source": "shop", "total": 12.5, "raw": b"\x00\xff", "nothing": None, "headers_repeated": True,
        "keys": ["attempt", "big", "c", "f", "i", "n", "ok", "raw", "source", "total"],
    }  # fmt: skip
    assert (empty.attempt, empty["keys"], empty.headers_repeated) == (None, [], False)


def test_header_columns_have_their_declared_types(spark: SparkSession, url: str) -> None:
    send(url, PAIRS, [("attempt", hs.uint8(200)), ("i", hs.uint128(5)), ("total", 3)], [])
    declared = "attempt TINYINT, source STRING, total DOUBLE, raw BINARY, n INT, big DECIMAL(38), c STRING, ok BOOLEAN, f FLOAT"
    frame = read(spark, url, headers="none", columns="offset", headerColumns=f"{declared}, i BIGINT")
    assert frame.dtypes == [
        ("offset", "bigint"), ("attempt", "tinyint"), ("source", "string"), ("total", "double"), ("raw", "binary"), ("n", "int"),
        ("big", "decimal(38,0)"), ("c", "string"), ("ok", "boolean"), ("f", "float"), ("i", "bigint"),
    ]  # fmt: skip
    rows = [tuple(row)[1:] for row in frame.orderBy("offset").collect()]
    assert rows == [
        (3, "shop", 12.5, b"\x00\xff", None, None, "é", True, 0.5, -7),
        (None, None, 3.0, None, None, None, None, None, None, 5),
        (None,) * 10,
    ]
    with_all = read(spark, url, headerColumns="i DECIMAL(5)")
    assert with_all.columns[-3:] == ["headers_repeated", "payload", "i"]
    assert with_all.orderBy("offset").select("i").collect()[0].i == Decimal(-7)


def test_header_that_does_not_fit_fails_when_told_so(spark: SparkSession, url: str) -> None:
    send(url, [("attempt", 1)], [("attempt", "two")])
    options = {"headerColumns": "attempt INT", "headerMismatch": "fail"}
    with pytest.raises(PySparkException) as raised:
        read(spark, url, **options).count()
    said = "the header 'attempt' is string('two'), which a column of type int32 cannot hold (shop/orders partition 1, offset 1)"
    assert said in str(raised.value)


def test_unknown_kind_and_state_are_shown(spark: SparkSession, url: str) -> None:
    send(url, [("future", b"zz")])

    def change(stored: bytearray) -> None:
        stored[stored.index(b"future") + 6] = 200
        stored[8] = 77

    patch_stored(url, change)
    (row,) = read(spark, url, headers="array", states="all", headerColumns="future BINARY").collect()
    assert [tuple(header) for header in row.headers] == [("future", "unknown(200)", b"zz")]
    assert (row.state, row.future) == ("unknown(77)", b"zz")
    (row,) = read(spark, url, states="unknown(77)").selectExpr("variant_get(headers, '$.future', 'binary') AS future").collect()
    assert row.future == b"zz"
