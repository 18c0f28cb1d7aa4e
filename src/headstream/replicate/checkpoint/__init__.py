"""A pipeline's checkpoint: a directory of this machine, or a log of changes in an object store with a working copy here."""
