"""The last lines of the server's logging output, buffered in memory for the diagnostic archive."""

from __future__ import annotations

import logging
from collections import deque
from typing import Final

_MOST_LINES: Final = 2_000
"""Number of buffered lines, about 400 KB with fields: hours of an idle server, or the minutes before a fault."""
_LINE_CHARACTERS: Final = 2_000
"""Maximum length of a line, characters; longer tracebacks are truncated."""


class RecentLines(logging.Handler):
    """Buffers the last log lines; thread-safe."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: deque[str] = deque(maxlen=_MOST_LINES)

    def emit(self, record: logging.LogRecord) -> None:
        """Buffer a line."""
        self._lines.append(self.format(record)[:_LINE_CHARACTERS])

    def text(self) -> str:
        """Return all buffered lines, oldest first."""
        self.acquire()
        try:
            return "".join(f"{line}\n" for line in self._lines)
        finally:
            self.release()


RECENT_LINES: Final = RecentLines()
"""The last log lines of this process."""
