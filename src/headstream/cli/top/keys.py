"""Reads single keys from a terminal, without waiting for Enter."""

from __future__ import annotations

import contextlib
import select
import sys
import time
from collections.abc import Iterator


@contextlib.contextmanager
def single_keys() -> Iterator[None]:
    """Make the terminal return each key immediately during the body, then restore it; without a terminal, do nothing."""
    try:
        import termios
        import tty
    except ImportError:  # Windows
        yield
        return
    if not sys.stdin.isatty():
        yield
        return
    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)
    try:
        tty.setcbreak(number)
        yield
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)


def read_key(seconds: float) -> str | None:
    """Return the key that is pressed within `seconds`, or None."""
    if not sys.stdin.isatty():
        time.sleep(seconds)
        return None
    try:
        is_pressed = bool(select.select([sys.stdin], [], [], seconds)[0])
    except (OSError, ValueError):  # Windows selects no terminals
        time.sleep(seconds)
        return None
    return sys.stdin.read(1) or "q" if is_pressed else None
