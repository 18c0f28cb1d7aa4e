"""A pipeline's checkpoint: a local directory, or a log of changes in an object store with a local working copy."""
