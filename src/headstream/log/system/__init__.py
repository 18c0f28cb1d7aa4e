"""The log's interface to the operating system: files, access modes, locks, calls of Linux, and findings about files."""
