"""Writing DataFrames into a log: every column and kind, partitions, bad rows, refusals; the lock held by this process."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pytest
from pyspark.errors import PySparkException

import headstream as hs
from headstream.core.model.identifiers import parse_message_id
from headstream.core.model.partitioning import partition_of
from headstream.log.segments.layout import INBOX_NAME, STAGED_NAME

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def log(url: str) -> Iterator[hs.Client]:
    """Return the log with this process as its writer, as in a notebook that has made the topic."""
    with hs.connect(url) as client:
        client.create_topic("shop/orders", partitions=3)
        client.create_topic("shop/wide", partitions=2, limits="wide")
        yield client


def write(frame: DataFrame, url: str, topic: str | None = "shop/orders", **options: str) -> None:
    writer = frame.write.format("headstream").mode("append").option("url", url).options(**options)
    (writer if topic is None else writer.option("topic", topic)).save()


def read_all(log: hs.Client, topic: str) -> dict[int, list[hs.Message]]:
    return {
        partition.number: list(log.poll(topic, partition.number, start="first", count=1_000_000))
        for partition in log.topic(topic).partitions
    }


def flat(log: hs.Client, topic: str) -> list[hs.Message]:
    return [message for messages in read_all(log, topic).values() for message in messages]


def assert_swept(url: str) -> None:
    root = Path(unquote(urlsplit(url).path))
    assert not [path for name in (STAGED_NAME, INBOX_NAME) for path in (root / name).rglob("*") if path.is_file()]


def test_rows_become_messages_while_this_process_has_the_lock(spark: SparkSession, log: hs.Client, url: str) -> None:
    write(spark.range(1000).selectExpr("CAST(id AS STRING) payload"), url)
    messages = flat(log, "shop/orders")
    assert sorted(int(m.payload or b"") for m in messages) == list(range(1000))
    assert len({m.id for m in messages}) == 1000
    assert_swept(url)
    write(spark.range(0).selectExpr("CAST(id AS STRING) payload"), url)
    assert len(flat(log, "shop/orders")) == 1000
    with log.producer("shop/orders") as producer:
        producer.send(b"after")
    assert len(flat(log, "shop/orders")) == 1001


def test_every_column_becomes_its_part_of_the_message(spark: SparkSession, log: hs.Client, url: str) -> None:
    message_id = uuid.uuid4()
    frame = spark.sql(f"""
        SELECT X'01' payload, 'k' key, 2 partition, '{message_id}' id, TIMESTAMP_MICROS(1690000000000001) timestamp,
            MAP('m', 1L) headers, true bool, 1Y int8, 2S int16, 3 int32, -4L int64, 5BD int128, CAST(0.5 AS FLOAT) float32,
            0.25D float64, 'text' string, X'FF' raw, 7 uint8, 8L uint64, CAST(9 AS DECIMAL(20,0)) uint128, CAST(NULL AS INT) none
    """)
    names = "bool, int8, int16, int32, int64, int128, float32, float64, string, raw, none"
    write(frame, url, headerColumns=f"{names}, uint8 uint8, uint64 uint64, uint128 uint128")
    [message] = read_all(log, "shop/orders")[2]
    assert (message.payload, message.key, message.id) == (b"\x01", b"k", parse_message_id(str(message_id)))
    assert {key: value.value for key, value in message.headers.items()} == {
        "m": 1, "bool": True, "int8": 1, "int16": 2, "int32": 3, "int64": -4, "int128": 5, "float32": 0.5, "float64": 0.25,
        "string": "text", "raw": b"\xff", "uint8": 7, "uint64": 8, "uint128": 9, "hs.timestamp": 1690000000000001,
    }  # fmt: skip
    named = set(message.headers) - {"m", "hs.timestamp"}
    assert {name: message.headers[name].kind_name for name in named} == {name: name for name in named}
    assert message.headers["m"].kind_name == message.headers["hs.timestamp"].kind_name == "int64"


def test_partitions_follow_the_column_then_the_key_then_all_in_turn(spark: SparkSession, log: hs.Client, url: str) -> None:
    frame = spark.range(300).selectExpr(
        "CAST(id AS STRING) payload",
        "IF(id % 3 = 2, NULL, CONCAT('key', id)) key",
        "IF(id % 3 = 0, CAST(id % 2 + 1 AS INT), NULL) partition",
    )
    write(frame, url)
    counts = 0
    for number, messages in read_all(log, "shop/orders").items():
        for message in messages:
            row = int(message.payload or b"")
            counts += 1
            if row % 3 == 0:
                assert number == row % 2 + 1
            elif row % 3 == 1:
                assert number == partition_of(message.key or b"", 3)
    assert counts == 300


def test_rows_go_to_the_topics_they_name(spark: SparkSession, log: hs.Client, url: str) -> None:
    frame = spark.range(100).selectExpr("CAST(id AS STRING) payload", "IF(id < 30, 'shop/orders', 'shop/wide') topic")
    write(frame.repartition(2), url, None)
    assert len(flat(log, "shop/orders")) == 30
    write(frame.selectExpr("payload", "'shop' stream", "split(topic, '/')[1] topic"), url, None)
    assert (len(flat(log, "shop/orders")), len(flat(log, "shop/wide"))) == (60, 140)
    with pytest.raises(PySparkException, match=r"there is no topic 'shop/none'.*headstream topic create shop/none"):
        write(frame.selectExpr("payload", "'shop/none' topic"), url, None)
    assert_swept(url)


KINDS = [
    ("raw", hs.raw(b"\x00\xff")), ("string", hs.string("text")), ("bool", hs.bool(True)), ("int8", hs.int8(-1)),
    ("int16", hs.int16(-2)), ("int32", hs.int32(-3)), ("int64", hs.int64(-4)), ("int128", hs.int128(-(2**127))),
    ("uint8", hs.uint8(255)), ("uint16", hs.uint16(65535)), ("uint32", hs.uint32(2**32 - 1)),
    ("uint64", hs.uint64(2**64 - 1)), ("uint128", hs.uint128(2**128 - 1)), ("float32", hs.float32(float("nan"))),
    ("float64", hs.float64(-0.0)), ("null", hs.null()), ("char", hs.char("é")), ("twice", 1), ("twice", "two"), ("ключ", b""),
]  # fmt: skip


@pytest.mark.parametrize("shape", ["array", "binary"])
def test_what_is_read_is_written_without_loss(spark: SparkSession, log: hs.Client, url: str, shape: str) -> None:
    with log.producer("shop/wide") as producer:
        for key, payload in ((b"k", b"p"), (None, None), (b"", b""), (b"k2", None)):
            producer.send(payload, key=key, headers=KINDS if payload != b"p" else [("one", hs.uint8(1))], partition=1)
    log.create_topic("shop/copy", partitions=2, limits="wide")
    frame = spark.read.format("headstream").option("url", url).option("subscribe", "shop/wide").option("headers", shape).load()
    write(frame.select("key", "payload", "headers", "id", "partition"), url, "shop/copy")
    before, after = read_all(log, "shop/wide"), read_all(log, "shop/copy")

    def parts(messages: list[hs.Message]) -> list[Any]:
        return [
            (m.id, m.key, m.payload, [(key, int(value.kind), value.data) for key, value in m.headers.items()]) for m in messages
        ]

    assert parts(after[1]) == parts(before[1])
    assert len(after[1]) == 4
    assert after[2] == []


def test_headers_as_kafka_has_them_are_raw(spark: SparkSession, log: hs.Client, url: str) -> None:
    write(spark.sql("SELECT 'p' payload, ARRAY(NAMED_STRUCT('key', 'k', 'value', X'01')) headers"), url)
    [message] = flat(log, "shop/orders")
    assert message.headers["k"] == hs.raw(b"\x01")


REFUSED = [
    ("SELECT 'a' payload, 1 extra", {}, r"these columns cannot be written: extra"),
    ("SELECT 'a' payload, 1L offset", {}, r"offset, set by the log"),
    ("SELECT 'a' value", {}, "the column payload is missing in value"),
    ("SELECT 1 payload", {}, r"column payload is INT, which cannot be sent.*BINARY or STRING"),
    ("SELECT 'a' payload, PARSE_JSON('{}') headers", {}, r"a VARIANT loses the kinds of headers"),
    ("SELECT 'a' payload, current_date() d", {"headerColumns": "d"}, r"column d is DATE.*Cast a time"),
    ("SELECT 'a' payload, 1 a", {"headerColumns": "b"}, "headerColumns names b, which is not a column"),
    ("SELECT 'a' payload, 1.5D a", {"headerColumns": "a int8"}, "column a, DOUBLE, cannot be sent as int8"),
    ("SELECT 'a' payload", {"topik": "x"}, r"no option topik.*Did you mean topic"),
    ("SELECT 'a' payload", {"topic": "orders"}, "'orders' is not a topic"),
    ("SELECT 'a' payload", {"topic": "shop/order"}, "there is no topic 'shop/order'"),
    ("SELECT 'a' payload", {"commitTimeout": "soon"}, "'soon' is not a duration"),
]


@pytest.mark.parametrize(
    ("query", "options", "what"), [*REFUSED[:4], *(pytest.param(*case, marks=pytest.mark.nightly) for case in REFUSED[4:])]
)
def test_what_cannot_be_written_is_refused_before_anything_runs(
    spark: SparkSession, log: hs.Client, url: str, query: str, options: dict[str, str], what: str
) -> None:
    with pytest.raises(PySparkException, match=what):
        write(spark.sql(query), url, **{"topic": "shop/orders", **options} if "topic" in options else options)
    assert flat(log, "shop/orders") == []
    assert_swept(url)


def test_overwriting_is_refused(spark: SparkSession, log: hs.Client, url: str) -> None:
    writer = spark.sql("SELECT 'a' payload").write.format("headstream").option("url", url).option("topic", "shop/orders")
    with pytest.raises(PySparkException, match="a log is append-only"):
        writer.mode("overwrite").save()
    for mode in ("ignore", "errorifexists"):
        with pytest.raises(PySparkException, match=r"(?i)append"):
            writer.mode(mode).save()
    assert flat(log, "shop/orders") == []


BAD = [
    ("CAST(NULL AS STRING) payload", "without payload"),
    ("'p' payload, REPEAT('x', 256) h", "header value of 256 bytes"),
    ("'p' payload, '' h", "header value of 0 bytes"),
    ("'p' payload, 'h' h, 4 partition", "column partition has values from 4"),
    ("'p' payload, 'h' h, 'no uuid' id", "column id has 'no uuid'"),
    ("'p' payload, 'h' h, X'000000' headers", "a header key is cut short"),
]


@pytest.mark.parametrize(("columns", "what"), [*BAD[:2], *(pytest.param(*case, marks=pytest.mark.nightly) for case in BAD[2:])])
def test_a_bad_row_fails_everything_and_is_named(spark: SparkSession, log: hs.Client, url: str, columns: str, what: str) -> None:
    good, names = columns.replace("NULL", "'x'").replace("256", "255").replace("'' h", "'h' h").replace("4 p", "1 p"), {}
    good = good.replace("'no uuid'", f"'{uuid.uuid4()}'").replace("X'000000'", "X''")
    if " h" in columns:
        names = {"headerColumns": "h"}
    frame = spark.sql(f"SELECT {good} FROM RANGE(0, 5000, 1, 1)").union(spark.sql(f"SELECT {columns}")).coalesce(1)
    with pytest.raises(PySparkException, match=f"{what}.*row 5000 of task 0, topic shop/orders"):
        write(frame, url, **names)
    assert flat(log, "shop/orders") == []
    assert_swept(url)


def test_bad_rows_go_where_badrowspath_says_and_the_others_into_the_log(
    spark: SparkSession, log: hs.Client, url: str, tmp_path: Path
) -> None:
    frame = spark.range(0, 2000, 1, 2).selectExpr(
        "IF(id % 100 = 7, NULL, CAST(id AS STRING)) payload", "IF(id = 50, 'shop/none', 'shop/orders') topic", "id number"
    )
    bad = tmp_path / "bad rows"
    write(frame, url, None, headerColumns="number", badRowsPath=bad.as_uri(), txnAppId="job", txnVersion="1")
    assert len(flat(log, "shop/orders")) == 2000 - 20 - 1
    for _ in range(2):  # written again, it changes nothing
        kept = spark.read.parquet(str(bad)).orderBy("number").collect()
        assert [row.number for row in kept] == sorted([50, *range(7, 2000, 100)])
        assert "without payload" in kept[0].reason
        assert "no topic 'shop/none'" in kept[1].reason
        write(frame, url, None, headerColumns="number", badRowsPath=bad.as_uri(), txnAppId="job", txnVersion="1")
    assert len(flat(log, "shop/orders")) == 2000 - 20 - 1
    assert_swept(url)


@pytest.mark.parametrize("url", ["file", "tcp"], indirect=True)
def test_a_transaction_is_written_once(spark: SparkSession, log: hs.Client, url: str) -> None:
    frame = spark.range(10).selectExpr("CAST(id AS STRING) payload")
    for version in ("3", "3", "4"):
        write(frame, url, txnAppId="my job/1", txnVersion=version)
    with pytest.raises(PySparkException, match="epoch 2 of writer 'my job/1' precedes the committed epoch 4"):
        write(frame, url, txnAppId="my job/1", txnVersion="2")  # never appended, so not told as done
    assert len(flat(log, "shop/orders")) == 20
    assert_swept(url)


def test_a_task_that_is_tried_again_with_its_rows_in_another_order_counts_once(
    spark: SparkSession, log: hs.Client, url: str, tmp_path: Path
) -> None:
    failing = tmp_path / "failing"
    failing.write_text("")

    def rows(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for batch in batches:
            yield batch.take(list(reversed(range(batch.num_rows)))) if context.attemptNumber() else batch
        with contextlib.suppress(FileNotFoundError):
            if context.partitionId() == 1:
                failing.unlink()
                raise RuntimeError("the first attempt fails after its last row")

    frame = spark.range(0, 20000, 1, 3).selectExpr("CAST(id AS STRING) payload").mapInArrow(rows, "payload STRING")
    with pytest.raises(PySparkException, match="the first attempt fails"):
        write(frame, url)  # local[2] tries a task once
    assert flat(log, "shop/orders") == []
    write(frame, url, txnAppId="again", txnVersion="1")
    assert sorted(int(m.payload or b"") for m in flat(log, "shop/orders")) == list(range(20000))
    # Tasks that still ran when the first write was given up may have staged for nobody, which is swept after a day.
    root = Path(unquote(urlsplit(url).path))
    assert all(path.name.startswith("once-") for path in (root / STAGED_NAME).iterdir())
    assert list((root / INBOX_NAME).iterdir()) == []


def test_a_lock_that_another_process_holds_is_waited_for_and_then_named(spark: SparkSession, url: str) -> None:
    from headstream.log.directory.lock import WriterLock

    with hs.connect(url) as log:
        log.create_topic("shop/orders")
    lock = WriterLock(f"{unquote(urlsplit(url).path)}/headstream.lock")
    lock.acquire()
    frame = spark.sql("SELECT 'a' payload")
    with pytest.raises(PySparkException, match=r"process \d+ is writing to this log.*within 0.2 s.*Nothing was written"):
        write(frame, url, commitTimeout="200ms")
    lock.release()
    with hs.connect(url) as log:
        assert flat(log, "shop/orders") == []
        assert_swept(url)
    write(frame, url)
    with hs.connect(url) as log:
        assert [m.payload for m in flat(log, "shop/orders")] == [b"a"]
