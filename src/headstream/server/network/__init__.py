"""Addresses, listening sockets and TLS, for all transports."""
