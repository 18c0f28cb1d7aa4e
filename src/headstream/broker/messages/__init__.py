"""Messages: appends, pages of polls, waits, and committed offsets of consumers."""
