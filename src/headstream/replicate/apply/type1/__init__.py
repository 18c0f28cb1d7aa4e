"""Current rows (SCD type 1): one row per key, guarded by the change sequence; soft deletions."""
