"""A configured Spark session and the `headstream` data source.

from headstream.spark import session

spark = session()
df = spark.readStream.format("headstream").option("url", "file:///var/lib/shop").option("subscribe", "shop/orders").load()

Importing this module requires neither PySpark nor Java; session() reports missing parts.
"""

from __future__ import annotations

from headstream.spark.sessions.session import register, session, stop

__all__ = ["register", "session", "stop"]
