"""The settings of a pipeline, and their configuration file."""
