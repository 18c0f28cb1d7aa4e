"""Iggy's protocol over TCP and QUIC: connections, requests, and the compiled path for small requests."""
