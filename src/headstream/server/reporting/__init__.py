"""Log lines, storage errors, and redaction of errors that are sent to clients."""
