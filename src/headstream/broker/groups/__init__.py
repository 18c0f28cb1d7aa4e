"""Consumer groups: their members, and the partitions that each member owns."""
