"""The anchor: Spark's own Kafka source and sink, on a real broker beside it; results in results/spark_kafka.txt.

    source     value only | headers array | one typed header, from a topic of messages with three headers each and from one of
               messages without headers, into `noop`; and format("headstream") over them, beside the same columns of Spark's
    sink       rows of a value alone, and with three headers, from what Spark itself generates

    python -m bench.spark_kafka [--messages 2000000] [--payload-bytes 100] [--rounds 3]

For a comparison in one run: filled_broker() gives a broker with the topic, anchor_frames() the frames to read, and
kafka_writer() writes any frame with a column `payload`.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from bench.machine import Report
from headstream.spark import session, stop
from headstream.testing import KafkaBroker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPIC: Final = "bench.messages"
BARE_TOPIC: Final = "bench.bare"
HEADERS: Final = (
    "array(named_struct('key', 'attempt', 'value', cast(cast(id % 5 as string) as binary)), "
    "named_struct('key', 'source', 'value', cast('web' as binary)), "
    "named_struct('key', 'total', 'value', cast(cast(id / 8 as string) as binary)))"
)
"""The three headers of bench.spark_source, as text."""
TYPED: Final = "try_cast(cast(filter(headers, h -> h.key = 'attempt')[0].value as string) as int) as attempt"


def generate(spark: SparkSession, messages: int, payload_bytes: int) -> DataFrame:
    """Return rows of a payload that does not compress, and three headers; made anew at every use."""
    digest = "sha2(cast(id as string), 512)"
    digits = f"repeat({digest}, {payload_bytes // 64 + 1})"
    payload = f"unhex(substr({digits}, 1, {2 * payload_bytes})) as payload"
    return spark.range(0, messages, 1, 2).selectExpr(payload, f"{HEADERS} as headers")


@contextmanager
def filled_broker(spark: SparkSession, messages: int, payload_bytes: int, partitions: int = 2) -> Iterator[KafkaBroker]:
    """Give a broker whose topic bench.messages holds so many messages with three headers each."""
    with KafkaBroker(heap_mb=1024) as broker:
        broker.create_topic(TOPIC, partitions)
        kafka_writer(generate(spark, messages, payload_bytes), broker, TOPIC, headers=True)()
        yield broker


def anchor_frames(spark: SparkSession, broker: KafkaBroker, topic: str = TOPIC) -> dict[str, DataFrame]:
    """Return what Spark's Kafka source reads of a topic: value only, with the headers array, with one typed header."""
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap_servers).option("subscribe", topic)
    plain, full = reader.load(), reader.option("includeHeaders", "true").load()
    return {
        "kafka, value only": plain.select("value"),
        "kafka, headers array": full.select("value", "headers"),
        "kafka, one typed header": full.selectExpr("value", TYPED),
    }


def kafka_writer(frame: DataFrame, broker: KafkaBroker, topic: str, *, headers: bool = False) -> Callable[[], None]:
    """Return a call that writes a frame's payloads with Spark's Kafka sink, with its Kafka headers where they are wanted."""
    columns = ["payload as value", *(["headers"] if headers else [])]
    writer = frame.selectExpr(*columns).write.format("kafka").option("topic", topic).mode("append")
    return lambda: writer.option("kafka.bootstrap.servers", broker.bootstrap_servers).save()


def measure(runs: dict[str, Callable[[], None]], rounds: int, prepare: Callable[[], None] = lambda: None) -> dict[str, float]:
    """Return the seconds of each run, without its preparation: medians of rounds that take all in turn, but for the first."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds + 1):
        for name, run in runs.items():
            prepare()
            began = time.perf_counter()
            run()
            if number:
                times[name].append(time.perf_counter() - began)
    return {name: statistics.median(each) for name, each in times.items()}


def read_frames(spark: SparkSession, broker: KafkaBroker, topic: str) -> dict[str, DataFrame]:
    """Return what is read of a topic: by Spark's Kafka source, and by ours over it."""
    plain = spark.read.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap_servers).option("subscribe", topic)
    loaded = plain.option("includeHeaders", "true").load()
    ours = {"url": broker.url, "subscribe": topic.replace(".", "/", 1)}

    def headstream(**options: str) -> DataFrame:
        return spark.read.format("headstream").options(**ours, **options).load()

    return anchor_frames(spark, broker, topic) | {
        "kafka, value only, headers loaded": loaded.select("value"),  # states are in headers: ours loads them too
        "headstream, payload only": headstream().select("payload"),
        "headstream, payload, states=all": headstream(columns="payload", states="all"),
        "headstream, headers=variant": headstream().select("payload", "headers"),
        "headstream, attempt BINARY": headstream(headerColumns="attempt BINARY").select("payload", "attempt"),
        "headstream, attempt BINARY, cast": headstream(headerColumns="attempt BINARY").selectExpr(
            "payload", "try_cast(cast(attempt AS STRING) AS INT) AS attempt"
        ),
        "headstream, attempt INT": headstream(headerColumns="attempt INT").select("payload", "attempt"),
    }


_BESIDE: Final = {
    "headstream, payload only": "kafka, value only, headers loaded",
    "headstream, payload, states=all": "kafka, value only",
    "headstream, headers=variant": "kafka, headers array",
    "headstream, attempt BINARY": "kafka, one typed header",
    "headstream, attempt BINARY, cast": "kafka, one typed header",
    "headstream, attempt INT": "kafka, one typed header",
}
"""What Spark's own source does for the same columns."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=2_000_000)
    parser.add_argument("--payload-bytes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    messages, rounds = arguments.messages, arguments.rounds
    spark = session("bench", master="local[2]")
    try:
        with Report("spark_kafka") as report, filled_broker(spark, messages, arguments.payload_bytes) as broker:
            report.line(f"{messages} messages of {arguments.payload_bytes} B in 2 partitions, local[2] and broker on one machine")
            rows = generate(spark, messages, arguments.payload_bytes)
            broker.create_topic(BARE_TOPIC, 2)
            kafka_writer(rows, broker, BARE_TOPIC)()
            for topic, what in ((TOPIC, "three headers each, without hs.kinds"), (BARE_TOPIC, "no headers")):
                report.line(f" messages with {what}")
                frames = read_frames(spark, broker, topic)
                runs: dict[str, Callable[[], None]] = {
                    name: frame.write.format("noop").mode("overwrite").save for name, frame in frames.items()
                }
                seconds = measure(runs, rounds)
                for name, each in seconds.items():
                    beside = _BESIDE.get(name)
                    ratio = f"  {seconds[beside] / each:5.2f} x {beside}" if beside else ""
                    report.line(f"  read   {name:36} {messages / each / 1e6:5.2f} M rows/s{ratio}")
            writes: dict[str, Callable[[], None]] = {"rows, into noop": rows.write.format("noop").mode("overwrite").save}
            for headers, what in ((False, "kafka, value only"), (True, "kafka, value and three headers")):
                broker.create_topic(f"written.{headers}", 2)
                writes[what] = kafka_writer(rows, broker, f"written.{headers}", headers=headers)
            for name, each in measure(writes, rounds).items():
                report.line(f"  write  {name:36} {messages / each / 1e6:5.2f} M rows/s")
    finally:
        stop(spark)


if __name__ == "__main__":
    main()
