"""The command line: one file a noun; importing it imports no more than click."""
