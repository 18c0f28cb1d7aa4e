"""The Replicate pipeline: change-data-capture envelopes in, correct Delta tables out."""
