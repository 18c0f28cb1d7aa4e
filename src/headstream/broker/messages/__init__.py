"""Messages: appends, poll pages, waits, and committed consumer offsets."""
