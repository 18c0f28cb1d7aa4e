"""Decoded changes as columns: types, versions, order, one change per key, full loads."""
