"""Key updates: rows whose changes are connected, because a change gave a row another key."""
