"""Parked and dead-lettered messages: the ledger, the pipeline's own log, operators' requests."""
