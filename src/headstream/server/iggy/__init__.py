"""Iggy's protocol over TCP and QUIC: connections, requests, and the compiled fast path for small requests."""
