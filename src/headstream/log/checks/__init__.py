"""Commands on a log without a running writer: verify, repair, back up, remove."""
