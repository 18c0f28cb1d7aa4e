"""The inputs of a pipeline: a log, Kafka, a DataFrame."""
