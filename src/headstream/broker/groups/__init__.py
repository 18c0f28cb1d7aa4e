"""Consumer groups: members, and the partitions that each member owns."""
