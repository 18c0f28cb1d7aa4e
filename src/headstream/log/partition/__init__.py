"""One partition: appends, sync, offsets, producers, readers, recovery, closed segments."""
