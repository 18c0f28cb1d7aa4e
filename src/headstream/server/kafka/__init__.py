"""The listener for Kafka's clients: Kafka's protocol over TCP, on the same log as the other transports."""
