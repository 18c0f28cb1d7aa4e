"""Messages as they are sent and stored: checks, stamps, compaction, repeats."""
