"""format("headstream") with a URL of Kafka: the same columns as over a log, read and written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import headstream as hs
from headstream.core.codec.kafka import decode_record, encode_record
from headstream.core.model.constructors import bool_
from headstream.errors import InvalidOptionError, LogError
from headstream.spark.kafka.options import _HANDED_ON, _SINK
from headstream.spark.kafka.reading import _column
from headstream.spark.kafka.writing import prepare_rows
from headstream.testing import KafkaBroker
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TYPED = hs.Headers([("attempt", hs.uint8(3)), ("source", "web"), ("source", "app"), ("total", 12.5), ("trace", b"\x01")])
_MESSAGES = [
    hs.Message(payload=b"paid", key=b"42", headers=_TYPED, id=7, timestamp=1_700_000_000_123_456),
    hs.Message(payload=None, key=b"42", headers=hs.Headers({"why": "asked"}), timestamp=1_700_000_000_124_000),
    hs.Message(payload=b"bad", state=hs.MessageState.POISONED, timestamp=1_700_000_000_125_000),
    hs.Message(payload=b"", timestamp=1_700_000_000_126_000),
]


def send(broker: KafkaBroker, topic: str, messages: list[hs.Message]) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for message in messages:
        producer.produce(**{**encode_record(message).arguments("confluent"), "topic": topic, "partition": 0})
    assert producer.flush(30) == 0


def receive(broker: KafkaBroker, topic: str, count: int) -> list[hs.Message]:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "check"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    records: list[Any] = consumer.consume(count, 30)
    consumer.close()
    return [decode_record(record) for record in records]


@pytest.fixture(scope="module")
def orders(kafka_broker: KafkaBroker) -> str:
    kafka_broker.create_topic("shop.orders")
    send(kafka_broker, "shop.orders", _MESSAGES)
    return kafka_broker.url


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT payload FROM headstream.`{url}`",
        "CREATE TABLE made USING headstream OPTIONS (url '{url}', subscribe 'shop/orders')",
        "CREATE TABLE made USING headstream OPTIONS (url '{url}', subscribe 'shop/orders') AS SELECT 1 AS one",
    ],
)
def test_sql_is_refused_over_kafka_with_advice_that_works(spark: SparkSession, orders: str, statement: str) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        spark.sql(statement.format(url=orders))
    advice = re.search(r"(spark\.read.*?\)), then (SELECT .*)$", str(caught.value))
    assert advice is not None, caught.value
    made = advice[1].replace('"kafka://..."', repr(orders)).replace('"subscribe", "..."', '"subscribe", "shop/orders"')
    eval(made, {"spark": spark})
    counted = spark.sql(advice[2].replace("...", "count(*) AS count")).collect()
    assert counted[0]["count"] == sum(message.state == hs.MessageState.AVAILABLE for message in _MESSAGES)
    spark.catalog.dropTempView("orders")


def _read(spark: SparkSession, url: str, **options: str) -> DataFrame:
    reader = spark.read.format("headstream").option("url", url).option("subscribe", "shop/orders")
    return reader.options(**options).load().orderBy("offset")


def test_read_gives_the_columns_of_a_log_when_the_url_is_of_kafka(spark: SparkSession, orders: str, url: str) -> None:
    with hs.connect(url) as log:
        log.create_topic("shop/orders")
    ours = spark.read.format("headstream").option("url", url).option("subscribe", "shop/orders").load()
    frame = _read(spark, orders, states="all")
    assert [(field.name, field.dataType) for field in frame.schema] == [(field.name, field.dataType) for field in ours.schema]
    rows = frame.selectExpr("*", "unix_micros(timestamp) AS us", "headers:attempt::int AS attempt").collect()
    assert [(row.stream, row.topic, row.partition, row.offset) for row in rows] == [("shop", "orders", 0, n) for n in range(4)]
    assert [row.payload for row in rows] == [b"paid", None, b"bad", b""]
    assert [row.key for row in rows] == [b"42", b"42", None, None]
    assert [row.us for row in rows] == [message.timestamp for message in _MESSAGES]
    assert [row.state for row in rows] == ["available", "available", "poisoned", "available"]
    assert [row.checksum for row in rows] == [message.checksum for message in _MESSAGES]
    assert rows[0].id == "07000000-0000-0000-0000-000000000000"
    assert rows[1].id is None
    assert (rows[0].attempt, rows[0].headers_repeated, rows[1].headers_repeated) == (3, True, False)
    assert rows[0].headers.toPython() == {"attempt": 3, "source": "app", "total": 12.5, "trace": b"\x01"}


def test_read_gives_every_shape_of_headers_and_leaves_other_states_out_when_asked(spark: SparkSession, orders: str) -> None:
    rows = _read(spark, orders, headers="array").collect()
    assert [row.offset for row in rows] == [0, 1, 3]
    assert [(header.key, header.kind, header.value) for header in rows[0].headers] == [
        (key, value.kind_name, value.data) for key, value in _TYPED.items()
    ]
    assert bytes(_read(spark, orders, headers="binary").collect()[0].headers) == _TYPED.as_bytes()
    mapped = _read(spark, orders, headers="map").selectExpr("headers['total']::double AS total").collect()[0]
    assert mapped.total == 12.5
    declared = _read(spark, orders, headers="none", headerColumns="attempt INT, source STRING, total DOUBLE, why STRING")
    assert [tuple(row) for row in declared.select("attempt", "source", "total", "why").collect()] == [
        (3, "app", 12.5, None),
        (None, None, None, "asked"),
        (None, None, None, None),
    ]


def test_read_names_topic_partition_and_offset_when_a_header_does_not_fit(spark: SparkSession, orders: str) -> None:
    frame = _read(spark, orders, headerColumns="why INT", headerMismatch="fail")
    with pytest.raises(Exception, match=r"topic shop\.orders, partition 0, offset 1"):
        frame.select("why").collect()


def test_every_option_of_sparks_kafka_source_is_passed_on(spark: SparkSession) -> None:
    provider = spark._jvm.java.lang.Class.forName("org.apache.spark.sql.kafka010.KafkaSourceProvider$")  # type: ignore[union-attr]
    instance = provider.getField("MODULE$").get(None)
    options = {
        str(method.invoke(instance, None))
        for method in provider.getDeclaredMethods()
        if method.getName().lower().endswith(("option_key", "_prefix", "offset_num_retry", "offset_retry_interval_ms"))
        and method.getParameterCount() == 0
        and method.getReturnType().getSimpleName() == "String"
    }
    assert {"startingoffsets", "minpartitions", "maxrecordsperpartition"} <= {option.lower() for option in options}
    ours = {option.lower() for option in (*_HANDED_ON, *_SINK)}
    assert {option.lower() for option in options} - ours <= {"includeheaders"}


def test_topics_of_hpe_data_fabric_retain_their_names_in_rows_that_are_read_and_written(spark: SparkSession) -> None:
    names = ["/apps/cdc.v1/stream:shop.orders", "shop.orders", "plain"]
    found = spark.createDataFrame([(name, b"v") for name in names], "topic string, payload binary")
    read = found.select(_column("stream").alias("stream"), _column("topic").alias("topic"), "payload")
    parts = [tuple(row) for row in read.select("stream", "topic").collect()]
    assert parts == [(None, names[0]), ("shop", "orders"), (None, "plain")]
    written, _ = prepare_rows(read, {"url": "kafka://h:9092"})
    assert [row.topic for row in written.collect()] == names


def test_read_takes_a_foreign_record_as_it_is_when_nobody_typed_it(spark: SparkSession, kafka_broker: KafkaBroker) -> None:
    from confluent_kafka import Producer

    kafka_broker.create_topic("plain")
    producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers})
    producer.produce("plain", b"v", headers=[("n", b"3"), ("", b"no key"), ("null", None)], partition=0)
    assert producer.flush(20) == 0
    reader = spark.read.format("headstream").options(url=kafka_broker.url, subscribe="plain", headers="array")
    row = reader.load().first()
    assert row is not None
    assert (row.stream, row.topic) == (None, "plain")
    assert [(header.key, header.kind, bytes(header.value)) for header in row.headers] == [
        ("n", "raw", b"3"),
        ("null", "null", b""),
    ]


_OTHER: list[tuple[str, str | bytes | None]] = [("n", b"3"), ("hs", b"a"), ("hs.states", b"poisoned"), ("HS.STATE", b"poisoned")]


def test_read_gives_no_record_of_another_state_unasked_wherever_its_header_is(
    spark: SparkSession, kafka_broker: KafkaBroker
) -> None:
    from confluent_kafka import Producer

    rows: dict[bytes, list[tuple[str, str | bytes | None]]] = {
        b"none": [],
        b"others": _OTHER,
        b"alone": [("hs.state", b"poisoned")],
        b"first": [("hs.state", b"poisoned"), *_OTHER],
        b"last": [*_OTHER, ("hs.state", b"unavailable")],
        b"said": [*_OTHER, ("hs.state", b"available"), ("n", b"4")],
        b"twice": [*_OTHER, ("hs.state", b"poisoned"), ("hs.state", b"available")],
        b"unknown": [*_OTHER, ("hs.state", b"unknown(99)")],
        b"null": [("hs.state", None)],
    }
    kafka_broker.create_topic("states")
    producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers})
    for name, headers in rows.items():
        producer.produce("states", name, headers=headers, partition=0)
    assert producer.flush(20) == 0
    read = spark.read.format("headstream").options(url=kafka_broker.url, subscribe="states", headers="none")

    def found(frame: DataFrame) -> list[bytes]:
        return [bytes(row.payload) for row in frame.orderBy("offset").select("payload").collect()]

    assert found(read.load()) == [b"none", b"others", b"said", b"null"]
    assert found(read.option("columns", "offset,payload").load()) == [b"none", b"others", b"said", b"null"]
    assert found(read.option("states", "poisoned").load()) == [b"alone", b"first", b"twice"]
    assert found(read.option("states", "available,unavailable").load()) == [b"none", b"others", b"last", b"said", b"null"]
    assert found(read.option("states", "all").load()) == list(rows)


@pytest.mark.parametrize("shape", ["array", "binary"])
def test_write_gives_back_what_was_read_when_headers_are_copied(
    spark: SparkSession, orders: str, kafka_broker: KafkaBroker, shape: str
) -> None:
    topic = f"shop.copied-{shape}"
    kafka_broker.create_topic(topic)
    frame = _read(spark, orders, headers=shape).drop("topic", "stream", "timestamp")
    frame.write.format("headstream").option("url", orders).option("topic", f"shop/copied-{shape}").mode("append").save()
    copied = receive(kafka_broker, topic, 3)
    kept = [_MESSAGES[0], _MESSAGES[1], _MESSAGES[3]]
    assert [(message.payload, message.key, message.headers, message.id) for message in copied] == [
        (message.payload, message.key, message.headers, message.id) for message in kept
    ]


def test_write_types_header_columns_when_they_are_named(spark: SparkSession, kafka_broker: KafkaBroker) -> None:
    kafka_broker.create_topic("shop.typed")
    rows = spark.sql(
        "SELECT 'a' AS payload, 'shop/typed' AS topic, 0 AS partition, TINYINT(-3) AS tiny, 7L AS big, true AS yes, "
        "DOUBLE(1e20) AS huge, DOUBLE('NaN') AS nan, FLOAT('-Infinity') AS low, 'x&y' AS text, X'00ff' AS bytes, "
        "CAST(NULL AS INT) AS `none & all`, map('m', 'text', 'n o', NULL) AS headers, TIMESTAMP_MICROS(5) AS timestamp"
    )
    writer = rows.write.format("headstream").option("url", kafka_broker.url)
    writer.option("headerColumns", "tiny,big uint64,yes,huge,nan,low,text,bytes,`none & all`").save()
    (message,) = receive(kafka_broker, "shop.typed", 1)
    expected = [
        ("m", hs.string("text")), ("n o", hs.null()), ("tiny", hs.int8(-3)), ("big", hs.uint64(7)), ("yes", bool_(True)),
        ("huge", hs.float64(1e20)), ("nan", hs.float64(float("nan"))), ("low", hs.float32(float("-inf"))),
        ("text", hs.string("x&y")), ("bytes", hs.raw(b"\x00\xff")), ("hs.timestamp", hs.int64(5)),
    ]  # fmt: skip
    assert list(message.headers.items()) == expected


def test_write_refuses_by_name_what_it_cannot_write_before_anything_runs(spark: SparkSession, kafka_broker: KafkaBroker) -> None:
    def write(query: str, **options: str) -> None:
        spark.sql(query).write.format("headstream").options(url=kafka_broker.url, **options).save()

    with pytest.raises(InvalidOptionError, match="column headers is VARIANT, which cannot be sent"):
        write("SELECT 'a' payload, parse_json('{}') headers", topic="shop/x")
    with pytest.raises(InvalidOptionError, match="the headstream format has no column 'colour'"):
        write("SELECT 'a' payload, 1 colour", topic="shop/x")
    with pytest.raises(InvalidOptionError, match="neither a column topic nor the option topic"):
        write("SELECT 'a' payload")
    with pytest.raises(InvalidOptionError, match="column n, STRING, cannot be sent as uint8"):
        write("SELECT 'a' payload, 'x' n", topic="shop/x", headerColumns="n uint8")
    with pytest.raises(Exception, match=r"a value does not fit uint8: .*300.*\(header 'n'\)"):
        write("SELECT 'a' payload, 300 n", topic="shop/x", headerColumns="n uint8")
    with pytest.raises(InvalidOptionError, match="the column payload is int"):
        write("SELECT 1 payload", topic="shop/x")
    writer = spark.sql("SELECT 'a' payload").write.format("headstream").mode("overwrite").option("topic", "shop/x")
    with pytest.raises(InvalidOptionError, match="mode=overwrite is unsupported"):
        writer.save(kafka_broker.url)


def _write_both(spark: SparkSession, rows: str, columns: str, broker: KafkaBroker, url: str, topic: str) -> list[hs.Headers]:
    """Write rows to Kafka and to a log; return the headers of the one message there, and here."""
    broker.create_topic(topic.replace("/", "."))
    for target in (broker.url, url):
        writer = spark.sql(rows).write.format("headstream").mode("append").options(url=target, topic=topic)
        writer.option("headerColumns", columns).save()
    with hs.connect(url) as log, log.consumer(topic) as consumer:
        ours = consumer.poll()
    return [message.headers for message in (*receive(broker, topic.replace("/", "."), 1), *ours)]


_ATTEMPTS = "array(named_struct('key', 'attempt', 'kind', 'string', 'value', CAST('one' AS BINARY)))"


@pytest.mark.parametrize("shape", ["array", "map", "kafka"])
def test_write_lets_the_column_win_as_the_sink_of_a_log_does_when_headers_has_its_key(
    spark: SparkSession, kafka_broker: KafkaBroker, url: str, shape: str
) -> None:
    given = {
        "array": _ATTEMPTS,
        "map": "map('attempt', 'one')",
        "kafka": "array(named_struct('key', 'attempt', 'value', CAST('one' AS BINARY)), "
        "named_struct('key', 'hs.kinds', 'value', CAST('attempt=string' AS BINARY)))",
    }[shape]
    with hs.connect(url) as log:
        log.create_topic(f"shop/both-{shape}")
    rows = "SELECT 'a' AS payload, {} AS headers, 3 AS attempt, CAST(7 AS DECIMAL(20,0)) AS total"
    topic = f"shop/both-{shape}"
    if shape == "kafka":  # a log's sink takes such an array for raw headers: it knows nothing of hs.kinds
        kafka_broker.create_topic(topic.replace("/", "."))
        writer = spark.sql(rows.format(given)).write.format("headstream").options(url=kafka_broker.url, topic=topic)
        writer.option("headerColumns", "attempt uint8, total").save()
        found = [message.headers for message in receive(kafka_broker, topic.replace("/", "."), 1)]
    else:
        found = _write_both(spark, rows.format(given), "attempt uint8, total", kafka_broker, url, topic)
        assert len(found) == 2
    for headers in found:
        expected = [("attempt", hs.string("one")), ("attempt", hs.uint8(3)), ("total", hs.int128(7))]
        assert list(headers.items()) == expected
        assert headers["attempt"] == hs.uint8(3)


def test_stream_copies_a_topic_to_another_when_both_are_in_kafka(
    spark: SparkSession, orders: str, kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    kafka_broker.create_topic("shop.streamed")
    reader = spark.readStream.format("headstream").option("subscribe", "shop/orders").option("headers", "binary")
    rows = reader.option("maxOffsetsPerTrigger", 2).load(orders).select("payload", "key", "headers")
    writer = rows.writeStream.format("headstream").option("url", orders).option("topic", "shop/streamed")
    query = writer.option("checkpointLocation", str(tmp_path)).queryName("copy").trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert query.name == "copy"
    assert query.exception() is None
    copied = receive(kafka_broker, "shop.streamed", 3)
    assert [message.payload for message in copied] == [b"paid", None, b""]
    assert copied[0].headers == _TYPED


def _copy(spark: SparkSession, url: str, subscribe: str, checkpoint: Path, **options: str) -> list[bytes]:
    """Run a query once over topics; return the payloads that it took."""
    taken: list[bytes] = []
    frame = spark.readStream.format("headstream").options(url=url, subscribe=subscribe, **options).load()
    writer = frame.writeStream.foreachBatch(lambda batch, number: taken.extend(row.payload for row in batch.collect()))
    writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()
    return taken


def test_stream_is_refused_when_a_topic_was_deleted_and_made_again(
    spark: SparkSession, kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    from confluent_kafka.admin import AdminClient

    topic = "shop.again"
    kafka_broker.create_topic(topic)
    send(kafka_broker, topic, [hs.Message(payload=b"old %d" % number) for number in range(10)])
    assert len(_copy(spark, kafka_broker.url, topic, tmp_path / "c")) == 10
    assert _copy(spark, kafka_broker.url, topic, tmp_path / "c") == []
    admin = AdminClient({"bootstrap.servers": kafka_broker.bootstrap_servers})
    admin.delete_topics([topic])[topic].result(30)
    wait_until(lambda: topic not in admin.list_topics(timeout=10).topics)
    kafka_broker.create_topic(topic)
    send(kafka_broker, topic, [hs.Message(payload=b"new %d" % number) for number in range(20)])
    with pytest.raises(LogError, match=r"topic shop\.again was deleted and recreated"):
        _copy(spark, kafka_broker.url, topic, tmp_path / "c")
    assert len(_copy(spark, kafka_broker.url, topic, tmp_path / "another")) == 20


def test_stream_names_a_topic_that_is_left_out_and_one_that_comes_back(
    spark: SparkSession, kafka_broker: KafkaBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for topic in ("shop.kept", "shop.dropped"):
        kafka_broker.create_topic(topic)
        send(kafka_broker, topic, [hs.Message(payload=topic.encode())])
    both = "shop.kept,shop.dropped"
    assert sorted(_copy(spark, kafka_broker.url, both, tmp_path / "c")) == [b"shop.dropped", b"shop.kept"]
    assert caplog.messages == []
    send(kafka_broker, "shop.kept", [hs.Message(payload=b"more")])
    assert _copy(spark, kafka_broker.url, "shop.kept", tmp_path / "c", failOnDataLoss="false") == [b"more"]
    assert ["topic shop.dropped is no longer read" in text for text in caplog.messages] == [True]
    caplog.clear()
    send(kafka_broker, "shop.kept", [hs.Message(payload=b"more")])
    assert sorted(_copy(spark, kafka_broker.url, both, tmp_path / "c")) == [b"more", b"shop.dropped"]
    assert ["topic shop.dropped is read again" in text for text in caplog.messages] == [True]
