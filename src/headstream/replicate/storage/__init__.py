"""The locations of a pipeline's tables (local paths and URIs of object stores), and the stores' settings and files."""
