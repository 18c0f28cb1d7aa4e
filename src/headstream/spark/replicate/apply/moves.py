"""Rows whose key changed by an update that did not carry every column, and what comes late for the key before.

Such an update makes a row of the new key out of what is known of the old one. An older change of the old key that comes
after it finds a deletion there; what it says belongs to the row where it is now, and fills the columns that nothing newer has
written. Where rows went is kept beside the tombstones, in a Delta table of its own (`_moves`):

    <key columns>, _hs_sequence, _hs_to.<key columns>
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from headstream.spark.replicate.apply.deltalake import Translated
from headstream.spark.replicate.folding import Key, Move
from headstream.spark.replicate.versions import ABSENT_VERSION, VERSION_CHARACTERS, moved_version, version_of

__all__ = ["Moves"]

_TO: Final = "_hs_to."


class Moves:
    """Where rows of one table went.

    Args:
        directory: The directory of the table's tombstones.
        keys: The table's key columns.
    """

    def __init__(self, directory: Path, keys: list[str]) -> None:
        self._path = directory / "_moves"
        self._keys = keys
        self._ways: dict[Key, list[tuple[str, Key]]] = {}
        self._arrivals: dict[Key, list[str]] = {}
        with self._translated():
            if DeltaTable.is_deltatable(str(self._path)):
                self._know(DeltaTable(str(self._path)).to_pyarrow_table().to_pylist())

    def __bool__(self) -> bool:
        return bool(self._ways)

    def record(self, moves: Iterable[Move], schema: pa.Schema) -> None:
        """Remember where rows went; must be done before they are merged.

        Args:
            moves: Key before and after, and when.
            schema: The types of the key columns.
        """
        rows = [
            dict(zip(self._keys, move.before, strict=True))
            | {_TO + key: value for key, value in zip(self._keys, move.after, strict=True)}
            | {"_hs_sequence": move.sequence}
            for move in moves
        ]
        if not rows:
            return
        fields = [pa.field(key, schema.field(key).type) for key in self._keys] + [pa.field("_hs_sequence", pa.string())]
        fields += [pa.field(_TO + key, schema.field(key).type) for key in self._keys]
        with self._translated():
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_deltalake(str(self._path), pa.Table.from_pylist(rows, schema=pa.schema(fields)), mode="append")
        self._know(rows)

    def follow(self, changes: pa.Table, columns: list[str]) -> pa.Table:
        """Return what late changes of keys that rows have left say of those rows: one change a key, with versions.

        Args:
            changes: Collapsed changes that are older than their key's deletion.
            columns: The table's columns in its own order.
        """
        found: dict[Key, dict[str, Any]] = {}
        for row in changes.to_pylist():
            key = tuple(row[name] for name in self._keys)
            at, now = self._now(key, row["_hs_sequence"])
            if now != key:
                versions = {name: moved_version(version, at) for name, version in _versions(row, columns).items()}
                # Deletions of the key from before the row came to it have nothing to do with the row.
                there = {**row, **dict(zip(self._keys, now, strict=True)), "_hs_sequence": at, "_hs_versions": versions}
                if now in found:
                    _fill(found[now], there)
                else:
                    found[now] = there
        for row in found.values():
            row["_hs_versions"] = "".join(row["_hs_versions"][name] for name in columns)
        return pa.Table.from_pylist(list(found.values()), schema=changes.schema)

    def _now(self, key: Key, sequence: str) -> tuple[str, Key]:
        """Return the key that a row had last of which something is known at a sequence, and the change that gave it to it."""
        came = sequence
        while True:
            way = next(((at, after) for at, after in self._ways.get(key, []) if at > came), None)
            if way is None or any(came < at < way[0] for at in self._arrivals.get(key, [])):  # it was another row that left
                return came, key
            came, key = way

    def _know(self, rows: Iterable[Mapping[str, Any]]) -> None:
        for row in rows:
            before, after = (tuple(row[prefix + key] for key in self._keys) for prefix in ("", _TO))
            ways = self._ways.setdefault(before, [])
            if (row["_hs_sequence"], after) not in ways:
                ways.append((row["_hs_sequence"], after))
                ways.sort(key=lambda way: way[0])
                self._arrivals.setdefault(after, []).append(row["_hs_sequence"])

    def _translated(self) -> Translated:
        return Translated(self._path, "where rows with other keys went cannot be read or written")


def _versions(row: Mapping[str, Any], columns: list[str]) -> dict[str, str]:
    """Return the version of each column of a collapsed change."""
    text = row["_hs_versions"]
    if text is None:
        own = version_of(row["_hs_sequence"])
        return {name: own if name in row else ABSENT_VERSION for name in columns}
    places = range(0, len(columns) * VERSION_CHARACTERS, VERSION_CHARACTERS)
    return {name: text[place : place + VERSION_CHARACTERS] for name, place in zip(columns, places, strict=True)}


def _fill(row: dict[str, Any], other: Mapping[str, Any]) -> None:
    """Take from what another change says of the same row what is newer there."""
    for name, version in other["_hs_versions"].items():
        if version > row["_hs_versions"][name]:
            row["_hs_versions"][name] = version
            row[name] = other[name]
    row["_hs_sequence"] = max(row["_hs_sequence"], other["_hs_sequence"])
