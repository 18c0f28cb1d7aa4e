"""Write to a log with Spark: a batch with typed headers, and a repeatable stream from one topic to another.

    python examples/spark/write.py [file:///var/lib/shop]

Without a URL, the program creates a log in a temporary directory.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import headstream as hs
from headstream.spark import session, stop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def create_topics(url: str) -> None:
    """Create the topics, because the sink does not create them."""
    with hs.connect(url) as log:
        log.create_topic("shop/orders", partitions=4, if_not_exists=True)
        log.create_topic("shop/big-orders", partitions=2, if_not_exists=True)


def write_batch(spark: SparkSession, url: str) -> None:
    """Write a thousand orders atomically."""
    orders = spark.range(1000).selectExpr(
        "CONCAT('order ', id) AS payload",
        "CAST(id % 50 AS STRING) AS key",
        "CAST(id % 3 AS INT) AS attempt",
        "IF(id % 4 = 0, 'shop', 'web') AS source",
        "id / 4D AS total",
    )
    writer = orders.write.format("headstream").mode("append").option("url", url).option("topic", "shop/orders")
    writer.option("headerColumns", "attempt uint8, source, total").save()


def copy_big(spark: SparkSession, url: str, checkpoint: str) -> None:
    """Copy each order of 200 or more once, with all headers; a second run continues after the first run's orders."""
    reader = spark.readStream.format("headstream").option("url", url).option("subscribe", "shop/orders")
    orders = reader.option("headers", "array").option("headerColumns", "total DOUBLE").load()
    big = orders.filter("total >= 200").select("key", "headers", "payload", "id")
    writer = big.writeStream.format("headstream").option("url", url).option("topic", "shop/big-orders")
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()


def main() -> None:
    """Write and copy orders, and print the message count of each topic."""
    spark = session(quick_start=True)
    try:
        with tempfile.TemporaryDirectory() as scratch:
            url = sys.argv[1] if len(sys.argv) > 1 else (Path(scratch) / "log").as_uri()
            create_topics(url)
            write_batch(spark, url)
            copy_big(spark, url, str(Path(scratch) / "checkpoint"))
            with hs.connect(url) as log:
                for name in ("shop/orders", "shop/big-orders"):
                    print(f"{name}: {log.topic(name).messages_count} messages")
    finally:
        stop(spark)


if __name__ == "__main__":
    main()
