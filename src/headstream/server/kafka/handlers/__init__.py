"""The handlers of Kafka's requests for topics and messages."""
