"""Commands on a log: verify, repair, back up, remove."""
