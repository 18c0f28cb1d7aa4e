"""The catalog: one SQLite database of streams, topics, groups, users, tokens, states and commits."""
