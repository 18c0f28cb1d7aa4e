"""Conventions of headers beside the products' own classes, and through the server's listener."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import headstream as hs
from headstream.core.codec.kafka import KafkaHeader
from headstream.core.codec.kafka.conventions import Convention, decode_headers, encode_headers
from headstream.core.model.constructors import bool_
from headstream.core.model.header_values import HeaderValue
from headstream.core.model.headers import Headers
from headstream.core.model.message import Message
from headstream.errors import HeaderError, JarsError, JavaError
from headstream.mirror import Mirror, MirrorOptions
from headstream.testing import KafkaBroker
from tests.support.header_products import HeaderProducts, header_products
from tests.support.server.kafka_listeners import KafkaListener, kafka_listener

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

_KINDS: dict[str, tuple[HeaderValue, str, str]] = {
    "b": (bool_(True), "java.lang.Boolean", "BOOLEAN"),
    "i8": (hs.int8(-3), "java.lang.Byte", "INT8"),
    "i16": (hs.int16(300), "java.lang.Short", "INT16"),
    "i32": (hs.int32(1 << 20), "java.lang.Integer", "INT32"),
    "i64": (hs.int64(1 << 40), "java.lang.Long", "INT64"),
    "i128": (hs.int128(5), "java.lang.Long", "INT8"),
    "u8": (hs.uint8(200), "java.lang.Short", "INT16"),
    "u16": (hs.uint16(60000), "java.lang.Integer", "INT32"),
    "u32": (hs.uint32(4), "java.lang.Long", "INT8"),
    "u64": (hs.uint64(1 << 62), "java.lang.Long", "INT64"),
    "f32": (hs.float32(0.1), "java.lang.Float", "FLOAT32"),
    "f64": (hs.float64(12.5), "java.lang.Double", "FLOAT32"),
    "big": (hs.float64(1e300), "java.lang.Double", "FLOAT64"),
    "whole": (hs.float64(3.0), "java.lang.Double", "INT8"),
    "nan": (hs.float64(float("nan")), "java.lang.Double", "STRING"),
    "c": (hs.char("x"), "java.lang.Character", "STRING"),
    "s": (hs.string("web"), "java.lang.String", "STRING"),
    "quoted": (hs.string('"q"'), "java.lang.String", "STRING"),
    "digits": (hs.string("12"), "java.lang.String", "INT8"),
    "r": (hs.raw(b"abc"), "[B", "STRING"),
}
"""Of each header its value, its class in Spring, its type in a sink of Connect."""


@pytest.fixture(scope="module")
def products() -> Iterator[HeaderProducts]:
    try:
        with header_products() as running:
            yield running
    except (JavaError, JarsError) as error:
        pytest.skip(str(error))


def _encode(convention: Convention) -> list[KafkaHeader]:
    pairs = [(key, value) for key, (value, _, _) in _KINDS.items()]
    return encode_headers(Message(payload=b"", headers=Headers(pairs)), convention)


def test_springs_mapper_reads_and_copies_each_kind_and_its_own_values_are_read(products: HeaderProducts) -> None:
    expected = {key: value for key, (value, _, _) in _KINDS.items()}
    expected["quoted"] = hs.string("q")  # the mapper writes a string as it is, and reads one that begins with a quote as JSON
    seen = products.spring(_encode("spring"))
    assert seen["quoted"].text == b'"q"'
    assert {key: seen[key].type for key in _KINDS} == {key: name for key, (_, name, _) in _KINDS.items()}
    assert dict(decode_headers([(key, header.copied) for key, header in seen.items()], "spring")) == expected
    written = [
        ("n", "Integer", "3"),
        ("x", "Double", "1.0E10"),
        ("s", "String", "07"),
        ("c", "Character", "x"),
        ("raw", "bytes", "5"),
    ]
    read = decode_headers(products.spring_written([*written, ("list", "List", "a")]), "spring")
    found = dict(read)
    assert [found["n"], found["x"], found["s"]] == [hs.int32(3), hs.float64(1e10), hs.string("07")]
    assert [found["c"], found["raw"], found["list"]] == [hs.char("x"), hs.raw(b"5"), hs.raw(b'["a"]')]
    again = products.spring(encode_headers(Message(payload=b"", headers=Headers(read)), "spring"))
    assert again["list"].type == "java.util.ArrayList"


def test_connects_converter_reads_and_copies_each_kind_and_changes_what_is_refused(products: HeaderProducts) -> None:
    headers = _encode("connect")
    seen = products.connect(headers)
    assert [header.type for header in seen[:-1]] == [name for _, _, name in _KINDS.values()]
    copied = [(key, header.copied) for (key, _), header in zip(headers, seen, strict=True)]
    assert decode_headers(copied, "connect") == [(key, value) for key, (value, _, _) in _KINDS.items()]
    refused: list[Any] = [
        "007",
        "10:30",
        "null",
        "1e3",
        " 12",
        "+5",
        hs.float64(0.1234567890123),
        hs.float64(-0.0),
        hs.raw(b"\xff"),
    ]
    for value in refused:
        message = Message(payload=b"", headers=Headers({"k": value}))
        with pytest.raises(HeaderError, match="'k'"):
            encode_headers(message, "connect")
        plain = encode_headers(message, "headstream")
        copied = [("k", products.connect(plain)[0].copied), *plain[1:]]
        assert decode_headers(copied, "connect") != list(message.headers.items()), value


def test_decode_headers_guesses_as_connects_converter_when_texts_are_random(products: HeaderProducts) -> None:
    """A guess that keeps the text is Connect's; any other text is a string."""
    drawn = random.Random(7)
    texts = ["".join(drawn.choices('0123456789+-.eE :,{}[]"\\truefalsnl', k=drawn.randint(1, 7))) for _ in range(3000)]
    texts += [str(drawn.randint(-(1 << 65), 1 << 65) >> drawn.randint(0, 64)) for _ in range(500)]
    texts += [repr(round(drawn.uniform(-1000, 1000), drawn.randint(1, 4))) for _ in range(500)]
    headers: list[KafkaHeader] = [("k", text.encode()) for text in texts]
    kinds = {"INT8": "int8", "INT16": "int16", "INT32": "int32", "INT64": "int64", "FLOAT32": "float32", "BOOLEAN": "bool"}
    for header, seen, (_, value) in zip(headers, products.connect(headers), decode_headers(headers, "connect"), strict=True):
        is_kept = seen.copied == header[1]
        assert value.kind_name == (kinds.get(seen.type, "string") if is_kept else "string"), (header, seen)


def _consume(listener: KafkaListener, count: int) -> list[list[KafkaHeader]]:
    consumer = Consumer(listener.confluent(group_id="reader", enable_auto_commit=False))
    consumer.assign([TopicPartition("shop.orders", 0, 0)])
    found: list[Any] = []
    until_s = time.monotonic() + 30
    while len(found) < count and time.monotonic() < until_s:
        found += consumer.consume(count, 0.2)
    consumer.close()
    return [message.headers() or [] for message in found]


def _open(listener: KafkaListener) -> hs.Client:
    return hs.connect(f"headstream://iggy:iggy@{listener.running.server.tcp_address}")


def _receive(client: hs.Client) -> list[dict[str, HeaderValue]]:
    """Return the headers of new messages, without the time that a record has."""
    with client.consumer("shop/orders", group="all", timeout_ms=0) as consumer:
        return [{key: value for key, value in message.headers.items() if key != "hs.timestamp"} for message in consumer]


def _check_one_stream(listener: KafkaListener, products: HeaderProducts) -> None:
    """Check that clients of a topic see each header with its type, whoever sent it, in each convention."""
    sent = {key: value for key, (value, _, _) in _KINDS.items()}
    with _open(listener) as client:
        client.create_topic("shop/orders", 1, limits="wide", kafka_headers="spring")
        with client.producer("shop/orders") as producer:
            producer.send(b"from Iggy", headers=sent)
        kafka = Producer(listener.confluent())
        written = products.spring_written([("n", "Integer", "3"), ("s", "String", "07"), ("x", "Float", "0.5")])
        kafka.produce("shop.orders", b"from Spring", headers=[*written])
        assert kafka.flush(30) == 0
        seen = products.spring(_consume(listener, 2)[0])
        assert {key: seen[key].type for key in sent} == {key: name for key, (_, name, _) in _KINDS.items()}
        received = _receive(client)
        assert received == [sent, {"n": hs.int32(3), "s": hs.string("07"), "x": hs.float32(0.5)}]
        client.update_topic("shop/orders", kafka_headers="connect")
        first, second = _consume(listener, 2)
        assert [header.type for header in products.connect(first)[:-1]] == [name for _, _, name in _KINDS.values()]
        assert dict(decode_headers(second, "connect")) == received[1]
        copied = [(key, header.copied) for (key, _), header in zip(first, products.connect(first), strict=True)]
        kafka.produce("shop.orders", b"from Connect", headers=[*copied])
        assert kafka.flush(30) == 0
        assert _receive(client) == [sent]


def test_one_stream_has_the_same_types_for_spring_connect_and_iggys_clients(products: HeaderProducts) -> None:
    with kafka_listener() as listener:
        _check_one_stream(listener, products)


@pytest.mark.nightly
@pytest.mark.spark
def test_one_stream_has_the_same_types_for_spark_too(products: HeaderProducts, spark: SparkSession, tmp_path: Path) -> None:
    with kafka_listener(tmp_path / "log") as listener:
        _check_one_stream(listener, products)
        names = "b BOOLEAN, i8 TINYINT, i16 SMALLINT, i32 INT, i64 BIGINT, u8 SMALLINT, f64 DOUBLE, s STRING, r BINARY"
        reader = spark.read.format("headstream").option("url", f"file://{tmp_path}/log").option("subscribe", "shop/orders")
        rows = reader.option("headerColumns", names).load().orderBy("offset").collect()
        for row in (rows[0], rows[2]):
            found = [row["b"], row["i8"], row["i16"], row["i32"], row["i64"], row["u8"], row["f64"], row["s"], bytes(row["r"])]
            assert found == [True, -3, 300, 1 << 20, 1 << 40, 200, 12.5, "web", b"abc"]


def _values_of(convention: Convention) -> dict[str, HeaderValue]:
    if convention == "raw":
        return {"r": hs.raw(b"abc")}
    if convention == "cloudevents":
        return {"type": hs.string("paid"), "n": hs.int32(7), "express": bool_(True), "r": hs.raw(b"abc"), "x-u": hs.uint16(60000)}
    return {key: value for key, (value, _, _) in _KINDS.items()}


def _read_over(log: hs.Client, topic: str) -> list[dict[str, HeaderValue]]:
    return [{key: value for key, value in found.headers.items() if not key.startswith("hs.")} for found in log.poll(topic)]


@pytest.mark.parametrize(
    "convention",
    [
        "spring",
        *(
            pytest.param(name, marks=pytest.mark.nightly)
            for name in ("headstream", "connect", "connect-json", "cloudevents", "raw")
        ),
    ],
)
def test_clients_and_mirrors_keep_the_types_of_headers_over_a_broker_in_a_convention(
    kafka_broker: KafkaBroker, convention: Convention
) -> None:
    """Written by a client, by a mirror, and by another product that copies records; read by a client and by a mirror."""
    values, topic = _values_of(convention), f"{convention}/sent"
    with (
        hs.connect(f"{kafka_broker.url}?kafka_headers={convention}") as kafka,
        hs.connect("memory://") as source,
        hs.connect("memory://") as copy,
    ):
        kafka.create_topic(topic, 1)
        kafka.send(topic, b"1", headers=values, id=1)
        settings = {"bootstrap.servers": kafka_broker.bootstrap_servers, "group.id": convention}
        consumer = Consumer(settings)
        consumer.assign([TopicPartition(f"{convention}.sent", 0, 0)])
        (record,) = consumer.consume(1, 60)
        consumer.close()
        written: list[Any] = [header for header in record.headers() or [] if header[0] != "hs.id"]
        assert written == encode_headers(Message(payload=b"", headers=Headers(values), id=1, topic=topic), convention)
        producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers})
        producer.produce(f"{convention}.sent", b"2", headers=written)
        assert producer.flush(30) == 0
        assert _read_over(kafka, topic) == [values, values]
        Mirror(kafka, copy, MirrorOptions(topics=(topic,), source_name="kafka", once=True)).run()
        assert _read_over(copy, topic) == [values, values]
        source.create_topic(f"{convention}/mirrored", 1, limits="wide")
        source.send(f"{convention}/mirrored", b"3", headers=values, id=1)
        Mirror(source, kafka, MirrorOptions(source_name="memory", once=True)).run()
        assert _read_over(kafka, f"{convention}/mirrored") == [values]
        assert Mirror(source, kafka, MirrorOptions(source_name="memory", once=True)).run().copied == 0
