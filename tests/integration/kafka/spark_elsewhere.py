"""A job for a Spark that is not a local session, which test_spark_elsewhere.py runs: log and Kafka, read and written."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from headstream.spark import functions as hf
from headstream.spark import register, session
from headstream.spark.sessions.jars import fetch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def start(kind: str) -> SparkSession:
    if kind == "local-cluster":
        return session(master="local-cluster[2,1,1024]")
    from pyspark.sql import SparkSession

    jars = ":".join(map(str, fetch()))
    spark: SparkSession = SparkSession.builder.remote("local[2]").config("spark.driver.extraClassPath", jars).getOrCreate()
    register(spark)
    return spark


def write_log(spark: SparkSession, url: str, topic: str, checkpoint: str) -> dict[str, list[int]]:
    """Copy a topic of a log to two others, by a batch and by a stream; return the attempts that each holds then."""
    batch = spark.read.format("headstream").options(url=url, subscribe=topic, headers="array").load()
    rows = batch.select("payload", "headers").write.format("headstream").mode("append")
    rows.options(url=url, topic=f"{topic}-batch").save()
    stream = spark.readStream.format("headstream").options(url=url, subscribe=topic, headers="array").load()
    written = stream.select("payload", "headers").writeStream.format("headstream").options(url=url, topic=f"{topic}-stream")
    query = written.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination(400)
    found = {}
    for name in ("batch", "stream"):
        copy = spark.read.format("headstream").options(url=url, subscribe=f"{topic}-{name}").load()
        found[name] = sorted(row.attempt for row in copy.selectExpr("headers:attempt::int AS attempt").collect())
    return found


def main(kind: str, log_url: str, kafka_url: str, topic: str, checkpoint: str) -> None:
    spark = start(kind)
    found: dict[str, object] = {"session": type(spark).__module__}
    for name, url in (("log", log_url), ("kafka", kafka_url)):
        frame = spark.read.format("headstream").option("url", url).option("subscribe", topic).load()
        found[name] = sorted(row.attempt for row in frame.selectExpr("headers:attempt::int AS attempt").collect())
    reader = spark.read.format("headstream").option("url", kafka_url).option("subscribe", topic)
    typed = reader.option("headers", "array").load()
    found["decoded"] = sorted(row[0] for row in typed.select(hf.header("headers", "attempt", "int", "other")).collect())
    rows = typed.select("payload", "headers")
    rows.write.format("headstream").option("url", kafka_url).option("topic", f"{topic}-copy").mode("append").save()
    copy = spark.read.format("headstream").option("url", kafka_url).option("subscribe", f"{topic}-copy").load()
    found["copied"] = copy.count()
    failing = reader.option("headerColumns", "source INT").option("headerMismatch", "fail").load().select("source")
    try:
        failing.collect()
    except Exception as error:
        text = str(error)
        begin = text.index(f"(topic {topic.replace('/', '.')}")
        found["error"] = text[begin : text.index(")", begin) + 1]
    found["written"] = write_log(spark, log_url, topic, checkpoint)
    sys.stdout.write(json.dumps(found) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
