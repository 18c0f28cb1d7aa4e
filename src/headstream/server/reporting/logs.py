"""Server logging: one line per event, as text or as JSON.

    2026-01-31T12:00:00.000000Z WARNING headstream.server login refused user="bob" address="127.0.0.1:54321" status=42
    {"time": "2026-01-31T12:00:00.000000Z", "level": "WARNING", "logger": "headstream.server", "event": "login refused", …}

Values from clients are always quoted and escaped, so that a name cannot forge a line.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias

from headstream.broker.recent_lines import RECENT_LINES

LogForm: TypeAlias = Literal["text", "json"]
_LOGGER: Final = logging.getLogger("headstream.server")
_ROOT: Final = "headstream"
_EVERY_S: Final = 60.0
_MAX_KEYS: Final = 1000
"""Maximum number of recorded events; above it, some events are logged more than once per minute."""
_ESCAPES: Final = {
    code: json.dumps(chr(code))[1:-1] if code < 0x7F else f"\\u{code:04x}"
    for code in (*range(32), *range(0x7F, 0xA0), 0x2028, 0x2029)
}
"""Characters that end a line or control a terminal: C0, DEL, C1, and Unicode's line and paragraph separators."""


def note(level: int, event: str, error: BaseException | None = None, /, **fields: object) -> None:
    """Log an event of the server; `event` is a constant string for which operators can search.

    Args:
        error: An exception to log with its traceback.
        fields: Details of the event; must not contain passwords, tokens or payloads.
    """
    if _LOGGER.isEnabledFor(level):
        _LOGGER.log(level, "%s", event, exc_info=error, extra={"fields": fields})


class Recently:
    """Records the events that were logged within the last minute; thread-safe. `monotonic` returns seconds."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._logged_s: dict[object, float] = {}

    def is_first(self, key: object) -> bool:
        """Return whether the event with a key was not logged within the last minute, and record it as logged."""
        now_s = self._monotonic()
        if now_s - self._logged_s.get(key, -_EVERY_S) < _EVERY_S:
            return False
        if len(self._logged_s) >= _MAX_KEYS:
            self._logged_s.clear()
        self._logged_s[key] = now_s
        return True


def start_logging(level: str, form: LogForm) -> None:
    """Write all of Headstream's log lines to standard error, and keep the last lines for the diagnostic archive."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines() if form == "json" else _TextLines())
    logger = logging.getLogger(_ROOT)
    RECENT_LINES.setFormatter(_ArchiveLines())
    logger.handlers[:] = [handler, RECENT_LINES]
    logger.setLevel(level.upper())
    logger.propagate = False


def _time(record: logging.LogRecord) -> str:
    return f"{datetime.fromtimestamp(record.created, UTC):%Y-%m-%dT%H:%M:%S.%f}Z"


class _TextLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        event = record.getMessage().translate(_ESCAPES)
        parts = [_time(record), *self.origin(record), event]
        parts += (f"{name}={json.dumps(value, default=str)}" for name, value in _fields(record).items())
        if record.exc_info:
            parts.append(f"\n{self.formatException(record.exc_info)}")
        return " ".join(parts)

    def origin(self, record: logging.LogRecord) -> tuple[str, ...]:
        """Return the parts of a line between the time and the event."""
        return record.levelname, record.name


class _ArchiveLines(_TextLines):
    """The line format of Iggy's archives: ` INFO ThreadId(07) headstream.server: ready`."""

    def origin(self, record: logging.LogRecord) -> tuple[str, ...]:
        """Return level, thread and logger."""
        return f"{record.levelname:>5}", f"ThreadId({record.thread or 0:02})", f"{record.name}:"


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        members = {"time": _time(record), "level": record.levelname, "logger": record.name, "event": record.getMessage()}
        members |= _fields(record)
        if record.exc_info:
            members["traceback"] = self.formatException(record.exc_info)
        return json.dumps(members, default=str)


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    fields: dict[str, Any] = getattr(record, "fields", {})
    return fields
