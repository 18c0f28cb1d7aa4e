"""`format("headstream")` with a URL kafka://host:port: Headstream's columns over Spark's own Kafka source and sink."""
