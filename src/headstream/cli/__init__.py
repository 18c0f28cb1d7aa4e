"""The command line, with one module per noun. Importing this package imports only click."""
