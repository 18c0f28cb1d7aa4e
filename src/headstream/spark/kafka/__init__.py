"""`format("headstream")` with a URL kafka://host:port: our columns over Spark's own Kafka source and sink."""
