"""Code that several commands share: options, output, text forms of headers and messages, confirmation."""
