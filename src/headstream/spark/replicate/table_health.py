"""Tables that take no changes at the moment: since when, why, and when they are tried again. Kept in the ledger.

A table that fails is tried again after a second, then after two, four, … up to five minutes, for as long as it takes. After
FAILURES_OF_A_POISONED_TABLE it is called poisoned: somebody should look, but it is still tried.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from headstream.spark.replicate.ledger import Ledger, Table

__all__ = ["FAILURES_OF_A_POISONED_TABLE", "FailingTable", "TableHealth"]

FAILURES_OF_A_POISONED_TABLE: Final = 5
_FIRST_WAIT_US: Final = 1_000_000
_LONGEST_WAIT_US: Final = 300_000_000
_LOGGER: Final = logging.getLogger("headstream.replicate")


@dataclass(frozen=True, slots=True)
class FailingTable:
    """One table.

    Args:
        table: Its schema and name.
        failures: How often it has failed since it last took changes.
        since_us: Since when, microseconds since 1970 UTC.
        next_us: When it is tried again.
        reason: Why it failed the last time.
    """

    table: Table
    failures: int
    since_us: int
    next_us: int
    reason: str

    @property
    def is_poisoned(self) -> bool:
        """Whether it has failed so often that somebody should look."""
        return self.failures >= FAILURES_OF_A_POISONED_TABLE


class TableHealth:
    """The failing tables of a pipeline.

    Args:
        ledger: The pipeline's ledger.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        rows = ledger.rows("SELECT table_schema, table_name, failures, since_us, next_us, reason FROM failing ORDER BY 1, 2")
        self._failing = {(schema, name): FailingTable((schema, name), *rest) for schema, name, *rest in rows}

    @property
    def failing(self) -> dict[Table, FailingTable]:
        """The tables that take no changes at the moment."""
        return self._failing

    def resting(self, now_us: int) -> dict[Table, str]:
        """Return the tables that are not to be tried yet, and why they failed."""
        return {table: found.reason for table, found in self._failing.items() if found.next_us > now_us}

    def waited_for(self) -> dict[Table, str]:
        """Return the tables for which changes wait, and why."""
        reasons = {table: found.reason for table, found in self._failing.items()}
        return {table: reasons.get(table, "earlier changes of it wait") for table in self._ledger.waiting_tables()}

    def note_failure(self, table: Table, reason: str, now_us: int) -> None:
        """Remember that a table did not take its changes."""
        before = self._failing.get(table)
        failures = 1 if before is None else before.failures + 1
        wait_us = min(_FIRST_WAIT_US << min(failures - 1, 20), _LONGEST_WAIT_US)
        found = FailingTable(table, failures, now_us if before is None else before.since_us, now_us + wait_us, reason)
        with self._ledger.transaction() as connection:
            row = (*table, failures, found.since_us, found.next_us, reason)
            connection.execute("INSERT OR REPLACE INTO failing VALUES (?, ?, ?, ?, ?, ?)", row)
        self._failing[table] = found
        called = "poisoned table" if found.is_poisoned else "table"
        _LOGGER.warning(
            "%s %s.%s takes no changes, failure %d; they wait, and it is tried again in %g s: %s",
            called, *table, failures, wait_us / 1e6, reason,
        )  # fmt: skip

    def note_success(self, table: Table) -> None:
        """Remember that a table took its changes."""
        if self._failing.pop(table, None) is not None:
            with self._ledger.transaction() as connection:
                connection.execute("DELETE FROM failing WHERE table_schema = ? AND table_name = ?", table)
            _LOGGER.warning("table %s.%s takes changes again", *table)
