"""`format("headstream")` with a URL kafka://host:port: Spark's own Kafka source and sink underneath, our columns above."""
