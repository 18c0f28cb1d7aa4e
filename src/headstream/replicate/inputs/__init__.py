"""The inputs of a pipeline: a log, Kafka or a DataFrame."""
