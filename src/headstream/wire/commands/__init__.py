"""The commands that Iggy's clients know, one file a noun."""
