"""Failing tables, with the time and reason of failures and the time of the next attempt. Stored in the ledger.

A failing table is retried after 1 s, 2 s, 4 s and so on, up to five minutes, until a merge succeeds. After
FAILURES_OF_A_POISONED_TABLE failures the table is reported as poisoned: an operator should intervene, but retries continue. A
stopped table is a failing table with too many invalid messages. All its messages wait, and each retry releases these messages.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, replace
from typing import Final

from headstream.replicate.parked.ledger import Ledger, Table

FAILURES_OF_A_POISONED_TABLE: Final = 5
_STOPPED: Final = "stopped_tables"
_FIRST_WAIT_US: Final = 1_000_000
_LONGEST_WAIT_US: Final = 300_000_000
_LOGGER: Final = logging.getLogger("headstream.replicate")


@dataclass(frozen=True, slots=True)
class FailingTable:
    """The failures of one table.

    Args:
        since_us: Time of the first failure, microseconds since 1970 UTC.
        next_us: Time of the next attempt, microseconds since 1970 UTC.
    """

    table: Table
    failures: int
    since_us: int
    next_us: int
    reason: str

    @property
    def is_poisoned(self) -> bool:
        """Whether the table has failed so often that an operator should intervene."""
        return self.failures >= FAILURES_OF_A_POISONED_TABLE


class FailingTables:
    """The failing tables of a pipeline."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        rows = ledger.rows("SELECT table_schema, table_name, failures, since_us, next_us, reason FROM failing ORDER BY 1, 2")
        self._failing = {(schema, name): FailingTable((schema, name), *rest) for schema, name, *rest in rows}
        self._stopped = {(schema, name) for schema, name in json.loads(ledger.mark(_STOPPED) or "[]")} & self._failing.keys()
        for table in self._stopped:  # the table's settings can have changed
            self._failing[table] = replace(self._failing[table], next_us=0)

    @property
    def failing(self) -> dict[Table, FailingTable]:
        """The failing tables."""
        return self._failing

    @property
    def stopped(self) -> dict[Table, str]:
        """The stopped tables, with reasons."""
        return {table: self._failing[table].reason for table in self._stopped}

    def tables_in_backoff(self, now_us: int) -> dict[Table, str]:
        """Return the tables that are not due for a retry, with the reasons for their failures."""
        return {table: found.reason for table, found in self._failing.items() if found.next_us > now_us}

    def waited_for(self) -> dict[Table, str]:
        """Return the tables with waiting changes, with reasons."""
        reasons = {table: found.reason for table, found in self._failing.items()}
        return {table: reasons.get(table, "earlier changes of the table wait") for table in self._ledger.waiting_tables()}

    def note_failure(self, table: Table, reason: str, now_us: int, *, stopped: bool = False) -> None:
        """Record that a merge into a table failed, or that the table is stopped."""
        before = self._failing.get(table)
        failures = 1 if before is None else before.failures + 1
        wait_us = min(_FIRST_WAIT_US << min(failures - 1, 20), _LONGEST_WAIT_US)
        found = FailingTable(table, failures, now_us if before is None else before.since_us, now_us + wait_us, reason)
        with self._ledger.transaction() as connection:
            row = (*table, failures, found.since_us, found.next_us, reason)
            connection.execute("INSERT OR REPLACE INTO failing VALUES (?, ?, ?, ?, ?, ?)", row)
        self._failing[table] = found
        if stopped and table not in self._stopped:
            self._keep_stopped(self._stopped | {table})
        called = "poisoned table" if found.is_poisoned else "table"
        _LOGGER.warning(
            "%s %s.%s failed (failure %d); its changes wait, and the merge is retried in %g s: %s",
            called, *table, failures, wait_us / 1e6, reason,
        )  # fmt: skip

    def note_success(self, table: Table) -> None:
        """Record that a merge into a table succeeded."""
        if table in self._stopped:
            self._keep_stopped(self._stopped - {table})
        if self._failing.pop(table, None) is not None:
            with self._ledger.transaction() as connection:
                connection.execute("DELETE FROM failing WHERE table_schema = ? AND table_name = ?", table)
            _LOGGER.warning("table %s.%s accepts changes again", *table)

    def _keep_stopped(self, stopped: set[Table]) -> None:
        self._stopped = stopped
        self._ledger.set_mark(_STOPPED, json.dumps(sorted(stopped)))
