"""Decoded changes as columns: types, versions, order, one change a key, full loads."""
