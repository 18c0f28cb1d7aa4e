"""The QUIC transport."""
