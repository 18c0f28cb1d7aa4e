"""Current rows (SCD type 1): one row per key, compared by change sequence; soft deletions."""
