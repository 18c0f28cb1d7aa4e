"""Messages: append, read one page of a poll, wait; committed offsets of consumers."""
