"""Log lines, storage errors in the log, and redaction of errors that are sent to clients."""
