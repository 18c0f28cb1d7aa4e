"""Limits for parked and dead-lettered messages, above which the pipeline stops or raises an alarm."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Mapping
from typing import Final, TypeAlias

from headstream.errors import ReplicateError
from headstream.replicate.parked.ledger import Ledger, Table
from headstream.replicate.settings.config import ReplicateConfig

Owner: TypeAlias = Table | str
"""A table, or the topic of messages without a table."""
_NAMED: Final = 3
_ALARM_EVERY_US: Final = 60_000_000
_LOGGER: Final = logging.getLogger("headstream.replicate")


class DeadRates:
    """The share of the newest messages that can never be a change, per table and, for messages without a table, per topic.

    Args:
        share: Maximum share, 0 to 1.
        least_messages: Minimum number of newest messages for the computation of the share.
    """

    def __init__(self, share: float, least_messages: int) -> None:
        self._share = share
        self._least = least_messages
        self._windows: dict[Owner, deque[tuple[int, int]]] = {}

    def find_exceeded(self, messages: Mapping[Owner, int], dead: Mapping[Owner, Counter[str]]) -> dict[Owner, str]:
        """Add a micro-batch before its messages are dead-lettered; return the owners that exceed the share, with reasons.

        The messages of these owners are not added, because the tables stop or the micro-batch is read again.
        """
        exceeded = {}
        for owner, count in messages.items():
            reasons = dead.get(owner, Counter())
            window = self._windows.setdefault(owner, deque())
            window.append((count, reasons.total()))
            while sum(count for count, _ in window) - window[0][0] >= self._least:
                window.popleft()
            read, given_up = (sum(column) for column in zip(*window, strict=True))
            if not reasons or read < self._least or given_up <= self._share * read:
                continue
            window.pop()
            summary = "; ".join(f"{count:,} times: {reason}" for reason, count in reasons.most_common(_NAMED))
            what = f"{given_up:,} of the newest {read:,} messages cannot be applied, more than {self._share:.0%}"
            exceeded[owner] = f"{what}: {summary}"
        return exceeded


class WaitingBounds:
    """Limits for waiting messages."""

    def __init__(self, config: ReplicateConfig, ledger: Ledger) -> None:
        self._config = config
        self._ledger = ledger
        self._alarmed_us: int | None = None

    def check(self, more_count: int, more_bytes: int) -> None:
        """Raise ReplicateError if more messages would exceed the limits."""
        waiting = self._ledger.waiting()
        count, size_bytes = waiting.count + more_count, waiting.size_bytes + more_bytes
        if not more_count or (count <= self._config.max_parked_count and size_bytes <= self._config.max_parked_bytes):
            return
        raise ReplicateError(
            f"{count:,} messages ({size_bytes:,} bytes) would wait for {self._describe()}, but the limits are "
            f"{self._config.max_parked_count:,} messages and {self._config.max_parked_bytes:,} bytes",
            where=str(self._config.checkpoint),
            advice="No message is lost: the next run reads this micro-batch again. Provide the schemas (their metadata "
            "messages, or files given by --schemas), repair the tables, or raise max_parked_count and max_parked_bytes",
        )

    def find_alarm(self, now_us: int) -> str | None:
        """Return the alarm about messages that have waited too long, and log the alarm once per minute."""
        oldest_us = self._ledger.waiting().oldest_us
        if oldest_us is None or now_us - oldest_us <= self._config.max_parked_age_us:
            self._alarmed_us = None
            return None
        alarm = f"messages have waited for {(now_us - oldest_us) / 1e6:,.0f} s for {self._describe()}"
        if self._alarmed_us is None or now_us - self._alarmed_us >= _ALARM_EVERY_US:
            self._alarmed_us = now_us
            _LOGGER.warning("%s", alarm)
        return alarm

    def _describe(self) -> str:
        ids, tables = self._ledger.waiting_ids(), sorted(self._ledger.waiting_tables())
        parts = [f"schema id {_first(ids)}"] if ids else []
        parts += [f"table {_first([f'{schema}.{name}' for schema, name in tables])}"] if tables else []
        loads = self._ledger.waiting("load").count
        parts += [f"partitions that are behind {loads:,} rows of full loads"] if loads else []
        return " and ".join(parts) or "their schemas"


def _first(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
