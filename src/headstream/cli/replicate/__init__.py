"""`headstream replicate`: run a pipeline, read its state, send requests to it, explain its messages."""
