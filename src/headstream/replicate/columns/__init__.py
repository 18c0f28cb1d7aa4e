"""Decoded changes as columns: types, versions, order, reduction to one change per key, full loads."""
