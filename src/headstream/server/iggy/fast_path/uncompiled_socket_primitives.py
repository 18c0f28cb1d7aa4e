"""Sockets where kernels run interpreted: same names and meaning as in socket_primitives.h."""

from __future__ import annotations

import os


def receive(descriptor: int, p: memoryview, size: int) -> int:
    """Read at most `size` received bytes; return their count, 0 if there are none, -1 at the end of the stream or on an error."""
    try:
        return os.readv(descriptor, [p[:size]]) or -1
    except BlockingIOError:
        return 0
    except OSError:
        return -1


def send(descriptor: int, p: memoryview, size: int) -> int:
    """Write as many bytes as the socket accepts; return their count, also 0 on an error, which reading reports."""
    try:
        return os.write(descriptor, p[:size])
    except OSError:
        return 0
