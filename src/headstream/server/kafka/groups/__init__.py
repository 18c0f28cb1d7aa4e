"""Consumer groups of Kafka clients, and their committed offsets."""
