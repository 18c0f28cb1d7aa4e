"""The changes of a batch that are joined to stored rows, as events per key (row_merge.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from headstream.replicate.apply.moved_keys.logged_rows import stacked
from headstream.replicate.columns.changes import OLD_PREFIX, OPERATIONS, Collapsed
from headstream.replicate.columns.row_merge import NO_SOURCE, Key, KeyEvent, KnownRow, Written
from headstream.replicate.columns.versions import ABSENT_VERSION, version_of

_UPDATE: Final = OPERATIONS.index("UPDATE")
_INSERT: Final = OPERATIONS.index("INSERT")


class BatchEvents:
    """The changes of a batch to resolve, as rows and as events.

    Args:
        late: Complete changes that must be resolved too, one per key.

    Attributes:
        inserts: Key and position of each insert.
    """

    def __init__(self, events: pa.Table | None, late: pa.Table, keys: list[str], collapsed: Collapsed) -> None:
        self._keys = keys
        self._present = collapsed.present
        self._columns = frozenset(collapsed.columns) - frozenset(keys)
        carried = set(late.schema.names)
        dropped = self._columns - carried
        self._dropped = {Written(ABSENT_VERSION, NO_SOURCE): dropped} if dropped else {}
        self._carried: dict[bytes | None, frozenset[str]] = {}
        parts = [part for part in (events, late) if part is not None]
        self.rows = stacked(parts[::-1])
        names = [*keys, "_hs_sequence", "_hs_delete"]
        more = [
            *(OLD_PREFIX + key for key in keys),
            "_hs_operation",
            "_hs_moved",
            "_hs_partial",
            "_hs_columns",
            "_hs_transaction",
            "_hs_event",
        ]
        self._records = self.rows.select([*names, *(name for name in more if name in self.rows.schema.names)]).to_pylist()
        self.keys = {self._key(row) for row in self._records}
        self.keys |= {self._before(row) for row in self._records if row.get("_hs_moved")}
        self.inserts = {(self._key(row), row["_hs_sequence"]) for row in self._records if row["_hs_operation"] == _INSERT}

    def _key(self, row: Mapping[str, Any]) -> Key:
        return tuple(row[name] for name in self._keys)

    def _before(self, row: Mapping[str, Any]) -> Key:
        return tuple(row[OLD_PREFIX + name] for name in self._keys)

    def _carried_by(self, mask: bytes | None) -> frozenset[str]:
        """Return the columns in a mask, without key columns; equal masks share one object."""
        if mask not in self._carried:
            self._carried[mask] = self._present(mask) & self._columns
        return self._carried[mask]

    def events(self, first: int) -> list[KeyEvent]:
        """Return the changes as events; an event's source is its row number, counted from `first`."""
        found = []
        for number, row in enumerate(self._records, first):
            key, sequence = self._key(row), row["_hs_sequence"]
            transaction, place = row.get("_hs_transaction") or "", row.get("_hs_event") or 0
            if row["_hs_delete"]:
                found.append(KeyEvent("delete", key, sequence, transaction=transaction, number=place))
                continue
            written = Written(version_of(sequence), number)
            if row.get("_hs_partial"):
                columns = self._carried_by(row["_hs_columns"])
                image = KnownRow(groups={written: columns} if columns else {})
            elif row.get("_hs_operation") == _UPDATE:
                image = KnownRow(written, self._dropped)
            else:
                image = KnownRow(written)
            if row.get("_hs_moved"):
                found.append(KeyEvent("move", key, sequence, image, self._before(row), transaction, place))
            else:
                found.append(KeyEvent("upsert", key, sequence, image, None, transaction, place))
        return found
