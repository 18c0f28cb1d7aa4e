"""The commands of Iggy's clients, one file per noun."""
