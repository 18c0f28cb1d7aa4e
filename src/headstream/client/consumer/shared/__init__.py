"""Consumers with mode="shared": workers of a group that lease messages instead of owning partitions."""
