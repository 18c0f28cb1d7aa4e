"""Messages that a group has not finished: attempts, leases, pauses, and copies in dead-letter topics."""
