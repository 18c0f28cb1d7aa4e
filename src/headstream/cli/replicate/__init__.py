"""`headstream replicate`: runs a pipeline, reads its state, sends requests to it, and explains its messages."""
