"""Changes into tables: one description of a merge, and the engines that run it."""
