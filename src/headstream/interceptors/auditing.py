"""Auditing: sender, host and time of each message in typed headers, and one log line per step of a message.

    header                kind     meaning
    audit.application     string   the application's name
    audit.host            string   the host's name
    audit.process         int64    the process id
    audit.time            int64    time of the send() call, microseconds since 1970 UTC
    audit.number          int64    message number, from 1 per Auditing object; a gap shows that a message was lost or not stored

A forwarded message gets another set of these headers after the existing headers, so the headers list every step in order.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import socket
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from headstream.core.model.constructors import int64
from headstream.core.model.message import Message
from headstream.interceptors.interceptor import ErrorPolicy, Interceptor

_log: Final = logging.getLogger("headstream.audit")
_MAX_BYTES: Final = 255
"""Maximum size of a header value in a topic with limits `iggy`."""


class Auditing(Interceptor):
    """Adds headers that identify the sender of a message, and records the steps of messages.

    Args:
        application: The name in `audit.application`; by default the program's name.
        record: Called with a dict for each step: `step` (`sent`, `stored`, `failed`, `received` or `committed`), `time_us`, the
            message's `topic`, `partition`, `offset` and `id` if known, and `error`. By default, each step is logged as a line of
            JSON by the logger `headstream.audit` at level INFO.
        stamp: Whether to add the headers.

    Errors of this interceptor are logged by default, and messages are processed without it.
    """

    on_error: ErrorPolicy | str = ErrorPolicy.SKIP

    def __init__(
        self, application: str | None = None, *, record: Callable[[dict[str, Any]], None] | None = None, stamp: bool = True
    ) -> None:
        name = application or Path(sys.argv[0]).name or "python"
        self._record = _record_line if record is None else record
        self._numbers = itertools.count(1)
        self._headers = (
            ("audit.application", name.encode()[:_MAX_BYTES].decode(errors="ignore")),
            ("audit.host", socket.gethostname()[:_MAX_BYTES] or "localhost"),
        )
        self._stamp = stamp

    def on_send(self, message: Message) -> Message:
        """Add the headers, and record the step."""
        now_us = time.time_ns() // 1000
        if self._stamp:
            headers = message.headers.with_(
                *self._headers,
                ("audit.process", int64(os.getpid())),
                ("audit.time", int64(now_us)),
                ("audit.number", int64(next(self._numbers))),
            )
            message = replace(message, headers=headers)
        self._record(_step("sent", message, now_us))
        return message

    def on_acknowledged(self, message: Message, error: Exception | None) -> None:
        """Record the outcome."""
        step = _step("stored" if error is None else "failed", message)
        self._record(step if error is None else {**step, "error": f"{type(error).__name__}: {error}"})

    def on_receive(self, message: Message) -> Message:
        """Record the step."""
        self._record(_step("received", message))
        return message

    def on_commit(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Record the step."""
        offsets_text = {str(partition): offset for partition, offset in offsets.items()}
        self._record({"step": "committed", "time_us": time.time_ns() // 1000, "topic": topic, "offsets": offsets_text})


def _step(step: str, message: Message, now_us: int | None = None) -> dict[str, Any]:
    now_us = time.time_ns() // 1000 if now_us is None else now_us
    found: dict[str, Any] = {"step": step, "time_us": now_us, "topic": message.topic}
    found |= {name: value for name in ("partition", "offset") if (value := getattr(message, name)) is not None}
    return found | ({"id": message.id} if message.id else {})


def _record_line(step: dict[str, Any]) -> None:
    _log.info("%s", json.dumps(step))
