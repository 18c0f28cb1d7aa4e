"""Location of the log that a data source reads or writes, and connections to its server."""
