"""The commands of Iggy clients, one module per noun."""
