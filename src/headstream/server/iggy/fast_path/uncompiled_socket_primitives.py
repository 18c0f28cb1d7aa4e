"""Socket access for uncompiled kernels; names and meaning as in socket_primitives.h."""

from __future__ import annotations

import os


def receive(descriptor: int, p: memoryview, size: int) -> int:
    """Read at most `size` received bytes; return their count, 0 if there are none, -1 at the stream's end or on an error."""
    try:
        return os.readv(descriptor, [p[:size]]) or -1
    except BlockingIOError:
        return 0
    except OSError:
        return -1


def send(descriptor: int, p: memoryview, size: int) -> int:
    """Write as many bytes as the socket accepts; return their count, or 0 on an error, which the next read reports."""
    try:
        return os.write(descriptor, p[:size])
    except OSError:
        return 0
