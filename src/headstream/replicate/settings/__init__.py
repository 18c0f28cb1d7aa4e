"""Pipeline settings and the configuration file."""
