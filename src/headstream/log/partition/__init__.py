"""One partition: append, sync, offsets, producers, readers, recovery, closed segments."""
