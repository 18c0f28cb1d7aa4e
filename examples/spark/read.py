"""Read a log with Spark: as a batch with typed header columns, and as a stream that ends after the existing messages.

    python examples/spark/read.py [file:///var/lib/shop]

Without a URL, the program first creates a small log in a temporary directory.
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


def make_log(url: str) -> None:
    """Send a thousand orders."""
    with hs.connect(url) as log:
        log.create_topic("shop/orders", partitions=4)
        with log.producer("shop/orders") as producer:
            for number in range(1000):
                headers = {"attempt": hs.uint8(number % 3), "source": "web" if number % 4 else "shop", "total": number / 4}
                producer.send(b"order %d" % number, key=b"%d" % (number % 50), headers=headers)


def read_batch(spark: SparkSession, url: str) -> list[tuple[str, int, float]]:
    """Return the number and the total of the orders with attempt 0, by source."""
    from pyspark.sql.functions import expr

    orders = (
        spark.read.format("headstream")
        .option("url", url)
        .option("subscribe", "shop/orders")
        .option("headers", "none")
        .option("headerColumns", "attempt INT, source STRING, total DOUBLE")
        .load()
    )
    first = orders.filter("attempt = 0").groupBy("source").agg(expr("count(*)"), expr("sum(total)"))
    return [tuple(row) for row in first.orderBy("source").collect()]


def copy_stream(spark: SparkSession, url: str, table: str, checkpoint: str) -> None:
    """Append new messages to a Delta table; a second run continues after the first run's messages."""
    orders = spark.readStream.format("headstream").option("url", url).option("subscribe", "shop/orders").load()
    rows = orders.selectExpr(
        "partition", "offset", "timestamp", "headers:source::string AS source", "CAST(payload AS string) AS text"
    )
    writer = rows.writeStream.format("delta").option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start(table).awaitTermination()


def main() -> None:
    """Read the log as a batch and as a stream."""
    with tempfile.TemporaryDirectory() as work:
        url = sys.argv[1] if len(sys.argv) > 1 else Path(work, "log").as_uri()
        if len(sys.argv) < 2:
            make_log(url)
        spark = session("read")
        for source, count, total in read_batch(spark, url):
            print(f"{source}: {count} orders, total {total:.2f}")
        table = str(Path(work, "table"))
        copy_stream(spark, url, table, str(Path(work, "checkpoint")))
        print(f"{spark.read.format('delta').load(table).count()} rows in the table")
        stop(spark)


if __name__ == "__main__":
    main()
