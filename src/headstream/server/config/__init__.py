"""The settings of a server: from a file, the environment and the command line."""
