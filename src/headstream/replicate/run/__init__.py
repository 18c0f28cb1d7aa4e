"""A running pipeline: micro-batches, transactions, status, metrics."""
