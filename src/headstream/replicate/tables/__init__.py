"""Target tables and change tables: their directories, owners, state and maintenance."""
