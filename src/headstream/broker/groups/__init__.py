"""Consumer groups: who is a member, and which member owns which partition."""
