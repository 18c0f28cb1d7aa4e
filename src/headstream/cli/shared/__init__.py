"""Code that several commands share: options, output, the texts of headers and messages, confirmation."""
