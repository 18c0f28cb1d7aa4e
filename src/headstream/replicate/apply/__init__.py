"""Applies changes to tables: the semantics of a merge, independent of the engine that runs the merge."""
