"""Unfinished messages of groups: attempts, leases, pauses, and dead letters."""
