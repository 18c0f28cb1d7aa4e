"""Changes of one key that do not carry every column, one after the other: each column as the last change that has it left it.

Few keys of a batch need it; the others are taken by their last change alone (changes.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from headstream.spark.replicate.versions import ABSENT_VERSION, VERSION_CHARACTERS, moved_version, version_of

__all__ = ["Fold", "Key", "Move", "fold_changes"]

Key: TypeAlias = tuple[Any, ...]
"""The values of a row's key columns."""


class Move(NamedTuple):
    """A change of a row's key that did not carry every column: the key before and after, and its change sequence."""

    before: Key
    after: Key
    sequence: str


@dataclass(frozen=True, slots=True)
class Fold:
    """How the changes of a table are folded.

    Args:
        keys: Its key columns.
        columns: Its columns in its own order, which versions follow.
        present: Column mask -> the columns that a change carries; None: every column of its schema.
    """

    keys: list[str]
    columns: list[str]
    present: Callable[[bytes | None], frozenset[str]]


class _Row:
    """A row as it becomes: values, and which change each is of."""

    __slots__ = ("deleted", "sequence", "values", "versions")

    def __init__(self, columns: list[str]) -> None:
        self.values: dict[str, Any] = dict.fromkeys(columns)
        self.versions = dict.fromkeys(columns, ABSENT_VERSION)
        self.sequence = ""
        self.deleted = False

    def write(self, change: Mapping[str, Any], names: Iterable[str]) -> None:
        version = version_of(change["_hs_sequence"])
        for name in names:
            self.values[name], self.versions[name] = change[name], version
        self.deleted, self.sequence = change["_hs_delete"], change["_hs_sequence"]

    def fill(self, values: Mapping[str, Any], versions: Mapping[str, str]) -> None:
        for name, version in versions.items():
            if version > self.versions[name]:
                self.values[name], self.versions[name] = values[name], version


def fold_changes(
    changes: Iterable[Mapping[str, Any]], fold: Fold, old_prefix: str, stored: Mapping[Key, Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return one row a key with `_hs_delete`, `_hs_sequence` and `_hs_versions`.

    Args:
        changes: All changes of some keys in the order they take effect. Of a change of key that does not carry every
            column (`_hs_moved`) the deletion of the key before comes first.
        fold: How.
        old_prefix: What the names of the key before begin with.
        stored: The table's rows of keys that such changes leave.
    """
    rows: dict[Key, _Row] = {}
    left: dict[tuple[Key, str], _Row] = {}
    for change in changes:
        key = tuple(change[name] for name in fold.keys)
        row = rows.setdefault(key, _Row(fold.columns))
        sequence = change["_hs_sequence"]
        if change["_hs_delete"] and change["_hs_moved"]:
            left.setdefault((key, sequence), row)
            row = rows[key] = _Row(fold.columns)
        elif change["_hs_moved"]:
            before = tuple(change[old_prefix + name] for name in fold.keys)
            row = rows[key] = _arrive(fold, left.get((before, sequence)), stored.get(before), sequence)
        whole = change["_hs_delete"] or not change["_hs_partial"]
        row.write(change, {*fold.present(None if whole else change["_hs_columns"]), *fold.keys})
    return [_finished(row, fold) for row in rows.values()]


def _arrive(fold: Fold, left: _Row | None, stored: Mapping[str, Any] | None, sequence: str) -> _Row:
    """Return the row of a new key as far as the old one's is known; what comes of it later, older, still fills the rest."""
    row = _Row(fold.columns)

    def bring(values: Mapping[str, Any], versions: Mapping[str, str]) -> None:
        row.fill(values, {name: moved_version(version, sequence) for name, version in versions.items()})

    if left is not None and not left.deleted:
        bring(left.values, left.versions)
    if stored is not None and stored["_hs_sequence"] < sequence:
        bring(stored, _stored_versions(stored, fold.columns))
    return row


def _stored_versions(stored: Mapping[str, Any], columns: list[str]) -> dict[str, str]:
    versions = stored["_hs_versions"]
    if versions is None:
        return dict.fromkeys(columns, version_of(stored["_hs_sequence"]))
    texts = (versions[place * VERSION_CHARACTERS : (place + 1) * VERSION_CHARACTERS] for place in range(len(columns)))
    return {name: text.ljust(VERSION_CHARACTERS) for name, text in zip(columns, texts, strict=True)}


def _finished(row: _Row, fold: Fold) -> dict[str, Any]:
    level = version_of(row.sequence)
    uniform = row.deleted or all(row.versions[name] == level for name in fold.present(None))
    versions = None if uniform else "".join(row.versions[name] for name in fold.columns)
    return {**row.values, "_hs_delete": row.deleted, "_hs_sequence": row.sequence, "_hs_versions": versions}
