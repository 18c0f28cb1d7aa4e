"""The transport QUIC."""
