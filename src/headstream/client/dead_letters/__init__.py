"""Dead letters of a topic: read, counted by reason, sent back (redrive), discarded, erased."""
