"""Sends differing rows through the pipeline, as changes with a sequence below every later change.

The sequence of a repair is the newest known sequence of the table, plus one in its last digit. This newest sequence was
determined before the source's rows were read for the repair. So:

    a change committed after that read       has a higher sequence and overrides the repair
    a change committed before that read      is in the row that was read; if already applied, its sequence is lower;
                                             if it arrives later, it and later changes restore the source's row
    everything in the target                 (rows, deletions, rows of loads) has a lower sequence

The messages have the flat form, which names the table instead of a schema, and are decoded by the newest schema with their
columns. They are the arguments of a request in the checkpoint, which the pipeline executes (run/between_batches.py). Nothing is
written to the source or its topics.
"""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final

from headstream.errors import StorageError
from headstream.replicate.columns.versions import MAX_SEQUENCE_CHARACTERS
from headstream.replicate.compare.comparison import Difference, TableResult
from headstream.replicate.schemas.schemas import TableSchema
from headstream.replicate.tables.table_memory import TableState
from headstream.replicate.tables.tables import TABLES_NAME

_OPERATIONS: Final = {"missing": "I", "changed": "U", "extra": "D"}
_MARKS: Final = re.compile(r"[.,/ -]")


def newest_sequence(checkpoint: Path, table: tuple[str, str]) -> str:
    """Return the newest change sequence of a table that a pipeline knows; "" before the table's first change.

    Raises:
        StorageError: the checkpoint cannot be read.
    """
    path = checkpoint / TABLES_NAME
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            row = connection.execute("SELECT state FROM tables WHERE schema = ? AND name = ?", table).fetchone()
    except sqlite3.Error as error:
        raise StorageError(f"the state of the tables cannot be read: {error}", where=str(path)) from error
    if row is None:
        return ""
    state = TableState.from_document(json.loads(row[0]))
    return max(state.loads.newest_change, _change_of(state.newest_deletion))


def sequence_after(newest: str) -> str:
    """Return the change sequence just above the newest sequence, or above all rows of a first load if there is none.

    The last digit is incremented in hexadecimal, in which some connectors write positions. So 9 becomes A, which is also below
    the next decimal number.
    """
    if not re.fullmatch("[0-9A-F]+", newest):
        return f"{newest}0"[:MAX_SEQUENCE_CHARACTERS] if newest else "1".zfill(MAX_SEQUENCE_CHARACTERS)
    return f"{int(newest, 16) + 1:X}".zfill(len(newest))


def describe_repair(result: TableResult, schema: TableSchema) -> dict[str, Any]:
    """Return the arguments of the request that repairs a table's differences."""
    chosen = [difference for difference in result.differences if difference.kind in _OPERATIONS]
    newest = max([result.newest, *(_change_of(difference.sequence) for difference in chosen)])
    sequence, lineage = sequence_after(newest), schema.metadata.lineage
    shared = {"schema": lineage.schema, "table": lineage.table, "change_seq": sequence, "stream_position": ""}
    shared["ts"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")
    messages = [
        {**shared, "op": _OPERATIONS[each.kind], "data": {schema.fields[name]: _text(value) for name, value in row.items()}}
        for each in chosen
        for row in [_row(each)]
    ]
    return {"table": result.table, "schema_id": schema.metadata.schema_id, "messages": messages}


def _row(difference: Difference) -> dict[str, Any]:
    """Return the row of a message; for a deletion, its key."""
    return difference.key if difference.source is None else difference.source


def _change_of(sequence: str) -> str:
    """Return the sequence of the newest change at or below a row's position."""
    return _MARKS.split(sequence, maxsplit=1)[0]


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(" ", "microseconds")
    return value.isoformat() if isinstance(value, date) else str(value)
