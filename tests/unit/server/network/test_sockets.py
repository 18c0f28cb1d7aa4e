"""Responses are written in pieces, or as one copy where pieces would keep much more in memory."""

from __future__ import annotations

from typing import Any, cast

import pytest

from headstream.server.network import sockets
from headstream.server.network.sockets import write_pieces


class Transport:
    """Notes what is written."""

    def __init__(self) -> None:
        self.copies = list[bytes]()
        self.pieces = list[Any]()

    def write(self, data: bytes) -> None:
        """Note a copy."""
        self.copies.append(data)

    def writelines(self, pieces: list[Any]) -> None:
        """Note pieces."""
        self.pieces += pieces


def _piece(size: int, buffer: int) -> memoryview:
    return memoryview(bytearray(buffer))[:size]


@pytest.mark.parametrize(
    ("size", "buffer", "is_in_use", "is_copied"),
    [
        (1000, 1 << 20, False, True),
        (100_000, 1 << 20, False, False),
        (100_000, 1 << 20, True, True),
        (1 << 20, 5 << 18, True, False),
        (1 << 20, 1 << 21, True, True),
    ],
    ids=["short", "long", "memory_is_scarce", "scarce_but_the_buffer_is_little_longer", "scarce_and_the_buffer_is_twice_as_long"],
)
def test_write_pieces_copies_what_is_short_or_keeps_much_memory(
    size: int, buffer: int, is_in_use: bool, is_copied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "_PAUSES_AFTER_LINES", True)
    transport, piece = Transport(), _piece(size, buffer)
    write_pieces(cast(Any, transport), [b"head", piece], size + 4, is_joined=is_in_use)
    assert (len(transport.copies), len(transport.pieces)) == ((1, 0) if is_copied else (0, 2))
    assert b"".join(transport.copies or transport.pieces) == b"head" + bytes(piece)


def test_write_pieces_writes_each_where_lines_would_not_pause_their_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "_PAUSES_AFTER_LINES", False)
    transport, piece = Transport(), _piece(100_000, 1 << 20)
    write_pieces(cast(Any, transport), [b"head", piece], 100_004, is_joined=False)
    assert (transport.copies, transport.pieces) == ([b"head", piece], [])
