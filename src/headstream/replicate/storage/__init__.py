"""Where a pipeline's tables are: paths of this machine and URIs of object stores, the stores' settings and files."""
