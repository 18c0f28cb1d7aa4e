"""The log's interface to the operating system: files, access modes, locks, Linux calls, and findings about files."""
