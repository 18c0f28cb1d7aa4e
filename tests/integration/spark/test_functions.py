"""Column functions over headers and messages, and their SQL spellings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import headstream as hs
from headstream.core.codec.binary import encode_polled, encode_sent
from headstream.core.codec.json import encode_polled as encode_json
from headstream.core.codec.kafka import encode_record
from headstream.core.codec.kip82 import encode_set, from_message
from headstream.errors import InvalidOptionError
from headstream.spark import functions as hf
from tests.support.spark_versions import needs_functions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = needs_functions
_HEADERS = hs.Headers([("attempt", hs.uint8(3)), ("source", "web"), ("source", "app"), ("it's", hs.int64(5))])
_MESSAGE = hs.Message(payload=b"paid", key=b"42", headers=hs.Headers({"attempt": hs.int32(3)}), id=7, offset=4, timestamp=1_000)


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    kafka = [(key, value) for key, value in encode_record(hs.Message(payload=b"", headers=_HEADERS)).headers]
    array = [(key, value.kind_name, value.data) for key, value in _HEADERS.items()]
    schema = (
        "kafka array<struct<key:string,value:binary>>, array array<struct<key:string,kind:string,value:binary>>, binary binary"
    )
    return spark.createDataFrame([(kafka, array, _HEADERS.as_bytes()), (None, None, None)], schema)


@pytest.mark.parametrize("source", ["kafka", "array", "binary"])
def test_headers_decode_gives_every_shape_from_every_shape(rows: DataFrame, source: str) -> None:
    made = rows.select(
        hf.headers_decode(source).alias("v"),
        hf.headers_decode(source, "array").alias("a"),
        hf.headers_decode(source, "map").alias("m"),
        hf.headers_decode(source, "binary").alias("b"),
        hf.header(source, "attempt", "int", "other").alias("attempt"),
    )
    made = made.select(
        "*", hf.header("v", "source", "string").alias("last"), hf.header("m", "it's", "bigint", "map").alias("five")
    )
    full, empty = made.collect()
    assert full.v.toPython() == {"attempt": 3, "source": "app", "it's": 5}
    assert [(each.key, each.kind, bytes(each.value)) for each in full.a] == [
        (key, value.kind_name, value.data) for key, value in _HEADERS.items()
    ]
    assert bytes(full.b) == _HEADERS.as_bytes()
    assert (full.attempt, full.last, full.five) == (3, "app", 5)
    assert (empty.attempt, empty.last, empty.five, empty.a) == (None, None, None, [])


def test_headers_encode_gives_kafkas_headers(rows: DataFrame) -> None:
    made = rows.select("kafka", hf.headers_encode("array").alias("a"), hf.headers_encode("binary").alias("b")).collect()
    assert made[0].a == made[0].b == made[0].kafka
    assert made[1].a == made[1].b == []


@pytest.mark.parametrize(
    ("dialect", "data"),
    [
        ("binary", encode_sent([_MESSAGE, _MESSAGE])),
        ("binary", encode_polled([_MESSAGE, _MESSAGE])),
        ("json", encode_json([_MESSAGE, _MESSAGE], 1, 4)),
        ("kip82", encode_set([from_message(_MESSAGE), from_message(_MESSAGE)])),
    ],
)
def test_message_decode_gives_the_messages_of_every_dialect(spark: SparkSession, dialect: Any, data: bytes) -> None:
    frame = spark.createDataFrame([(data,), (None,)], "data binary")
    frame.createOrReplaceTempView("spelled")
    first, second = frame.select(hf.message_decode("data", dialect).alias("messages")).collect()
    assert second.messages is None
    assert [bytes(message.payload) for message in first.messages] == [b"paid", b"paid"]
    assert [(each.key, each.kind) for each in first.messages[0].headers] == [("attempt", "int32")]
    assert (bytes(first.messages[0].key), first.messages[0].id) == (b"42", "07000000-0000-0000-0000-000000000000")
    assert spark.sql(f"SELECT message_decode_{dialect}(data) AS messages FROM spelled").first() == first


def test_message_decode_refuses_a_dialect_that_it_does_not_know() -> None:
    with pytest.raises(InvalidOptionError, match="not 'xml'"):
        hf.message_decode("data", "xml")


def test_sql_functions_are_there_when_the_session_is_ours(spark: SparkSession, rows: DataFrame) -> None:
    rows.createOrReplaceTempView("headed")
    row = spark.sql(
        "SELECT headers_decode(kafka):attempt::int AS attempt, headers_encode(array) = kafka AS same, "
        "X'70616964' AS payload, CAST(NULL AS BINARY) AS nothing FROM headed WHERE kafka IS NOT NULL"
    )
    summed = row.select(
        "attempt", "same", hf.payload_checksum("payload").alias("sum"), hf.payload_checksum("nothing").alias("none")
    )
    assert tuple(summed.collect()[0]) == (3, True, _MESSAGE.checksum, 0)
