"""The anchor: Spark's own Kafka source and sink, on a real broker beside it; results in results/spark_kafka.txt.

    source     value only | headers array | one typed header, from a topic of messages with three headers each, into `noop`;
               and format("headstream") over it
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


def anchor_frames(spark: SparkSession, broker: KafkaBroker) -> dict[str, DataFrame]:
    """Return what Spark's Kafka source reads of bench.messages: value only, with the headers array, with one typed header."""
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap_servers).option("subscribe", TOPIC)
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


def _time(run: Callable[[], None], rounds: int) -> float:
    """Return the seconds of a run: the median, after one that does not count."""
    times = []
    for _ in range(rounds + 1):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return statistics.median(times[1:])


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
            report.line(f"{messages} messages of {arguments.payload_bytes} B in 2 partitions, local[2], the broker beside it")
            frames = anchor_frames(spark, broker)
            reader = spark.read.format("headstream").option("url", broker.url).option("subscribe", "bench/messages")
            plain = spark.read.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap_servers)
            loaded = plain.option("subscribe", TOPIC).option("includeHeaders", "true").load()
            frames["kafka, value only, headers loaded"] = loaded.select("value")  # states are in headers: ours loads them too
            frames["headstream over kafka, payload only"] = reader.load().select("payload")
            every = spark.read.format("headstream").option("url", broker.url).option("subscribe", "bench/messages")
            frames["headstream over kafka, payload, states=all"] = every.options(columns="payload", states="all").load()
            frames["headstream over kafka, headers=variant"] = reader.load().select("payload", "headers")
            typed = reader.option("headerColumns", "attempt INT").load()
            frames["headstream over kafka, one declared header"] = typed.select("payload", "attempt")
            for name, frame in frames.items():
                noop = frame.write.format("noop").mode("overwrite")
                seconds = _time(noop.save, rounds)
                report.line(f"  read   {name:44} {messages / seconds / 1e6:5.2f} M rows/s")
            generated = generate(spark, messages, arguments.payload_bytes)
            noop = generated.write.format("noop").mode("overwrite")
            report.line(f"  made   rows, into noop {'':29} {messages / _time(noop.save, 1) / 1e6:5.2f} M rows/s")
            for headers in (False, True):
                broker.create_topic(f"written.{headers}", 2)
                seconds = _time(kafka_writer(generated, broker, f"written.{headers}", headers=headers), rounds)
                what = "kafka, value and three headers" if headers else "kafka, value only"
                report.line(f"  write  {what:44} {messages / seconds / 1e6:5.2f} M rows/s")
    finally:
        stop(spark)


if __name__ == "__main__":
    main()
