"""The settings of a pipeline and the configuration file."""
