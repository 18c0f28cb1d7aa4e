"""A trace id from the producer to a table: the header is sent with the message, and becomes a column.

pip install 'headstream[spark]'
python examples/spark/trace_to_table.py
"""

import secrets
import tempfile
from pathlib import Path

import headstream as hs
from headstream.spark import session

directory = Path(tempfile.mkdtemp(prefix="headstream-trace-"))
url = f"file://{directory}/log"

# The producer: a W3C trace context is a header of kind string.
traces = [f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01" for _ in range(3)]
with hs.connect(url) as log:
    log.create_topic("shop/orders", partitions=2)
    with log.producer("shop/orders") as producer:
        for number, trace in enumerate(traces):
            producer.send(b"order %d" % number, key=b"%d" % number, headers={"traceparent": trace, "attempt": hs.uint8(1)})

# The pipeline: a header becomes a typed column, without a user-defined function.
spark = session("trace-to-table", jars=False, quick_start=True)
orders = (
    spark.read.format("headstream")
    .option("url", url)
    .option("subscribe", "shop/orders")
    .load()
    .selectExpr("headers:traceparent::string AS trace", "headers:attempt::int AS attempt", "CAST(payload AS string) AS payload")
)
orders.write.parquet(f"{directory}/table")

# The table contains the trace of the request from which each row originates.
for row in spark.read.parquet(f"{directory}/table").orderBy("payload").collect():
    assert row.trace in traces
    print(row.payload, row.attempt, row.trace)

spark.stop()
