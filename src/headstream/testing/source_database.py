"""A simulated source database and its capture: a test oracle for jobs that turn change messages into tables.

The database is generated in memory from a seed, so the true final state of every table is known. The capture equals the messages
that Replicate would send. Pass the messages to your job in any order, then compare:

    >>> from headstream.testing import CaptureOptions, SourceDatabase, digest_rows, repeat, shuffle
    >>> source = SourceDatabase(seed=7, rows=20, transactions=50)
    >>> options = CaptureOptions(late_metadata={"SHOP.orders": "end"})
    >>> messages = repeat(shuffle(source.capture(options), seed=1), seed=2, fraction=0.1)
    >>> metadata = [message.value for message in messages if message.role == "metadata"]
    >>> data = [message.value for message in messages if message.role == "data"]

    ... run the job on both, then read each resulting table, for example by DeltaTable(..).to_pyarrow_table().to_pylist():

    >>> rows = list(source.final_state("SHOP", "orders").values())
    >>> digest_rows(rows, ["number"]) == source.digest("SHOP", "orders")
    True

A full load contains the rows before any change. REFRESH messages have no change sequence and no time; a change overrides the
REFRESH of the same key, regardless of the order. A job that sorts by change sequence as a string already does this, because the
empty string sorts first.

A job must not rely on the order of arrival (within a table or across tables), a null in a column outside the column mask, a
change mask of zero in a table with large objects, or the section of a deleted row. Nor may it assume that a key changes only by
delete and insert, or that a deleted key stays deleted.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from datetime import time

from headstream.errors import InvalidInputError, NotFoundError
from headstream.replicate.codec import TableMetadata
from headstream.testing.digests import digest_rows
from headstream.testing.shop_tables import SHOP_TABLES
from headstream.testing.source_capture import CaptureOptions, SourceMessage, capture_history, table_metadata
from headstream.testing.source_history import Key, SourceChange, SourceHistory, simulate_history
from headstream.testing.source_tables import Row, SourceTable
from headstream.testing.source_values import format_time
from headstream.testing.source_versions import RowVersion, list_versions


class SourceDatabase:
    """A source database with a generated history.

    Args:
        seed: The same seed and arguments produce the same database, including messages.
        rows: Number of rows per table in the full load, from 0.
        transactions: Number of transactions after the load, from 0; tables are altered half-way through the transactions.
        largest_transaction: Maximum number of changes per transaction, from 1 (see source_history).
        key_changes: Whether transactions change primary keys.

    Raises:
        InvalidInputError: a number is out of range, or two tables have the same name.
    """

    def __init__(
        self,
        seed: int = 0,
        *,
        tables: Sequence[SourceTable] = SHOP_TABLES,
        rows: int = 100,
        transactions: int = 200,
        largest_transaction: int = 9,
        key_changes: bool = True,
    ) -> None:
        names = [table.qualified_name for table in tables]
        if rows < 0 or transactions < 0 or largest_transaction < 1:
            raise InvalidInputError(
                f"invalid source: {rows} rows per table and {transactions} transactions of up to {largest_transaction} changes",
                advice="Use at least 0 rows and transactions, and at least 1 change per transaction",
            )
        if not names or len(set(names)) != len(names):
            raise InvalidInputError("a source must have tables with unique names", where=", ".join(names))
        self.seed = seed
        self._tables = dict(zip(names, tables, strict=True))
        self._key_changes = key_changes
        self._rows, self._transactions, self._largest_transaction = rows, transactions, largest_transaction

    @functools.cached_property
    def _history(self) -> SourceHistory:
        return simulate_history(
            tuple(self._tables.values()),
            seed=self.seed,
            rows=self._rows,
            transactions=self._transactions,
            largest_transaction=self._largest_transaction,
            key_changes=self._key_changes,
        )

    @property
    def changes(self) -> tuple[SourceChange, ...]:
        """All changes in source order: the full load, then the transactions' changes."""
        return self._history.changes

    def capture(self, options: CaptureOptions | None = None) -> Iterator[SourceMessage]:
        """Yield the messages of a capture in source order; by default as Replicate sends them with full logging.

        Raises:
            InvalidOptionError: the options contradict the database.
        """
        return capture_history(self._history, tuple(self._tables.values()), options or CaptureOptions(), self.seed)

    def tables(self) -> tuple[TableMetadata, ...]:
        """Return the metadata of each table's last version, in table order."""
        return tuple(self.versions(table.schema, table.name)[-1] for table in self._tables.values())

    def versions(self, schema: str, table: str) -> tuple[TableMetadata, ...]:
        """Return the metadata of a table's versions, captured with default options; NotFoundError if the table does not exist."""
        found = self._find(schema, table)
        last = self._history.last_versions[found.qualified_name]
        return tuple(table_metadata(found, version, seed=self.seed) for version in range(last + 1))

    def final_state(self, schema: str, table: str) -> dict[Key, Row]:
        """Return a table's rows after the last change, by primary key.

        The values have the types that pyarrow's `to_pylist` returns: int, float, Decimal (also for UINT8), bool, str, bytes,
        date, datetime in UTC, or None. TIME is a string: HH:MM:SS, and .mmm unless the milliseconds are zero.

        Raises:
            NotFoundError: the table does not exist.
        """
        rows = self._history.rows[self._find(schema, table).qualified_name]
        return {key: _in_table_types(row) for key, row in rows.items()}

    def row_versions(self, schema: str, table: str) -> list[RowVersion]:
        """Return every version of a table's rows in order of validity start: the expected content of an SCD type 2 table.

        A row has the columns that its table had at that time; values are as in final_state(). Rows of a full load have the empty
        string as `valid_from`. An update without changes opens no version.

        Raises:
            NotFoundError: the table does not exist.
        """
        found = self._find(schema, table)
        changes = (change for change in self._history.changes if change.table is found)
        return [version._replace(row=_in_table_types(version.row)) for version in list_versions(changes, found.key_columns)]

    def digest(self, schema: str, table: str) -> str:
        """Return the digest (digest_rows()) of a table's final state; NotFoundError if the table does not exist."""
        return digest_rows(self.final_state(schema, table).values(), self._find(schema, table).key_columns)

    def _find(self, schema: str, table: str) -> SourceTable:
        found = self._tables.get(f"{schema}.{table}")
        if found is None:
            raise NotFoundError(f"the source has no table {schema}.{table}", advice=f"Use one of {', '.join(self._tables)}")
        return found


def _in_table_types(row: Row) -> Row:
    return {name: format_time(value) if isinstance(value, time) else value for name, value in row.items()}
