"""The last lines of the server's log, kept in memory for the archive that tells about a server."""

from __future__ import annotations

import logging
from collections import deque
from typing import Final

__all__ = ["RECENT_LINES", "RecentLines"]

_MOST_LINES: Final = 2_000
"""What hours of a quiet server, or the minutes before a fault, take: with fields, some 400 KB."""
_LINE_CHARACTERS: Final = 2_000
"""A traceback is cut behind so many."""


class RecentLines(logging.Handler):
    """Keeps the last lines; any thread."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: deque[str] = deque(maxlen=_MOST_LINES)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
        self._lines.append(self.format(record)[:_LINE_CHARACTERS])

    def text(self) -> str:
        """Return all lines that are kept, the oldest first."""
        self.acquire()
        try:
            return "".join(f"{line}\n" for line in self._lines)
        finally:
            self.release()


RECENT_LINES: Final = RecentLines()
"""Of this process."""
