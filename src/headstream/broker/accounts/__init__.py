"""Users, their passwords, tokens, permissions and sessions."""
