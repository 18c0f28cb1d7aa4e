"""The state of a Delta table from its log, including deletion vectors, which deltalake does not return.

    _delta_log/   newest complete checkpoint  +  every later commit N.json   ->   LogSnapshot, which advances by later commits

A checkpoint is one Parquet file, several parts, or (version 2) a file that names sidecars.
"""

from __future__ import annotations

import json
import re
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import Schema

from headstream.errors import StorageError
from headstream.replicate.storage.deletion_vectors import DeletionVector, Positions, read_vectors
from headstream.replicate.storage.delta_places import Translated
from headstream.replicate.storage.places import Place
from headstream.replicate.storage.table_files import file_names, open_parquet_file, read_file

_LOG: Final = "_delta_log"
_COMMIT: Final = re.compile(r"(\d{20})\.json")
_CHECKPOINT: Final = re.compile(r"(\d{20})\.checkpoint(?:\.\d{10}\.(\d{10})|\.[0-9a-fA-F-]{36})?\.(?:parquet|json)")
_PARSED: Final = ("stats_parsed", "partitionValues_parsed")
"""Fields of a checkpoint's actions that repeat other fields in parsed form."""
_KINDS: Final = ("add", "remove", "metaData", "protocol", "txn", "sidecar")
_ATTEMPTS: Final = 3
"""Attempts to read a whole log; meanwhile, another writer can delete old commits and checkpoints."""
_BATCH_ROWS: Final = 1 << 16
_MOST_CACHED_BYTES: Final = 64 << 20
"""Maximum size of the decoded deletion vectors that a snapshot caches, bytes."""
_ABSOLUTE: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/|/")
_PLAIN_PATH: Final = re.compile(r"[A-Za-z0-9_.=/-]+")
_VECTORS: Final = "deletionVectors"
VECTORS_PROPERTY: Final = "delta.enableDeletionVectors"
"""The table property that determines whether writers use deletion vectors: `true` or `false`."""
_SUPPORTED: Final = frozenset(
    {"appendOnly", "invariants", _VECTORS, "changeDataFeed", "checkConstraints", "generatedColumns", "identityColumns",
     "columnMapping", "timestampNtz", "variantType"}
)  # fmt: skip
"""Writer features that commits support unless merge_on_read_refusal() returns a reason."""
_REFUSED_SETTINGS: Final = {
    "delta.enableChangeDataFeed": "its change data feed",
    "delta.appendOnly": "delta.appendOnly",
    "delta.enableRowTracking": "row tracking",
    "delta.enableInCommitTimestamps": "in-commit timestamps",
    "delta.enableTypeWidening": "type widening",
}
_REFUSED_FIELDS: Final = ("delta.invariants", "delta.generationExpression", "delta.identity.")
_PARTITION_TYPES: Final = re.compile(r"string|long|integer|short|byte|boolean|date|timestamp|timestamp_ntz|decimal\(.*\)")
_IMPLIED: Final = {
    2: ("appendOnly", "invariants"), 3: ("checkConstraints",), 4: ("changeDataFeed", "generatedColumns"),
    5: ("columnMapping",), 6: ("identityColumns",),
}  # fmt: skip
"""Writer version -> the features that it adds to lower versions."""


@dataclass(frozen=True)
class DataFile:
    """A live data file.

    Args:
        action: The file's `add` action in the log, without `deletionVector`.
        vector: The deleted rows; None if no row is deleted.
    """

    action: Mapping[str, Any]
    vector: DeletionVector | None = None

    @property
    def path(self) -> str:
        """The file's path within the table's directory, URL-encoded as in the log."""
        return str(self.action["path"])

    @property
    def partition_values(self) -> dict[str, str | None]:
        """Partition column -> value as a string; None for null."""
        return dict(self.action.get("partitionValues") or {})

    @property
    def size(self) -> int:
        """The file's size, bytes."""
        return int(self.action["size"])

    @cached_property
    def stats(self) -> dict[str, Any]:
        """`numRecords`, `minValues`, `maxValues`, `nullCount`, `tightBounds`, with all digits of the log; empty if missing."""
        return _parse_stats(self.action.get("stats") or "{}")

    @property
    def rows(self) -> int | None:
        """Number of rows in the file, including deleted rows; None if the statistics do not contain the number."""
        count = self.stats.get("numRecords")
        return None if count is None else int(count)

    @property
    def deleted(self) -> int:
        """Number of deleted rows in the file."""
        return 0 if self.vector is None else self.vector.cardinality


@dataclass(frozen=True, slots=True)
class Protocol:
    """A table's requirements for readers and writers.

    Args:
        reader: `minReaderVersion`.
        writer: `minWriterVersion`.
        reader_features: None below reader version 3.
        writer_features: None below writer version 7.
    """

    reader: int = 1
    writer: int = 2
    reader_features: tuple[str, ...] | None = None
    writer_features: tuple[str, ...] | None = None

    @classmethod
    def from_action(cls, action: Mapping[str, Any]) -> Protocol:
        """Return the protocol in a `protocol` action."""
        features = [action.get(name) for name in ("readerFeatures", "writerFeatures")]
        return cls(
            action["minReaderVersion"],
            action["minWriterVersion"],
            *(None if names is None else tuple(names) for names in features),
        )

    @property
    def has_vectors(self) -> bool:
        """Whether files can have deletion vectors."""
        return _VECTORS in (self.reader_features or ()) and _VECTORS in (self.writer_features or ())

    @property
    def action_with_vectors(self) -> dict[str, Any]:
        """The `protocol` action that adds the feature; also lists all features that older versions imply, as Delta requires."""
        implied = [name for version, names in _IMPLIED.items() if version <= self.writer for name in names]
        writer = implied if self.writer_features is None else list(self.writer_features)
        reader = [*(["columnMapping"] if self.reader == 2 else []), *(self.reader_features or ())]
        return {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": sorted({*reader, _VECTORS}),
            "writerFeatures": sorted({*writer, _VECTORS}),
        }

    @property
    def action_without_vectors(self) -> dict[str, Any]:
        """The `protocol` action that removes the feature, with the lowest possible versions."""
        reader = sorted({*(self.reader_features or ())} - {_VECTORS})
        writer = sorted({*(self.writer_features or ())} - {_VECTORS})
        for version in range(2, max(_IMPLIED) + 1):
            implied = {name for number, names in _IMPLIED.items() if number <= version for name in names}
            if not reader and {*writer} == implied:
                return {"minReaderVersion": 1, "minWriterVersion": version}
        features = {"writerFeatures": writer, **({"readerFeatures": reader} if reader else {})}
        return {"minReaderVersion": 3 if reader else 1, "minWriterVersion": 7, **features}


class LogSnapshot:
    """The state of a table at the last read; advance() reads newer commits.

    Attributes:
        version: Version of the newest commit that was read.
        metadata: The newest `metaData` action: `schemaString`, `partitionColumns`, `configuration`.
        files: Path as in the log -> live file.
        transactions: app_id -> version in its newest `txn` action.
        folded_ms: Time of the last fold or compaction, milliseconds since 1970 UTC; None if the commits that were read
            contain neither.
        removed: (Decoded path, vector) -> time of removal, milliseconds since 1970 UTC, for removed files that are still in the
            log; empty unless read() had `with_removed`.
    """

    def __init__(self, table: Place) -> None:
        self.table = table
        self._keeps_removed = False
        self._cached: OrderedDict[DeletionVector, Positions] = OrderedDict()
        self._cached_bytes = 0
        self._clear()

    @classmethod
    def read(cls, table: Place, *, with_removed: bool = False, at_least: int = 0) -> LogSnapshot:
        """Read a table's log.

        Args:
            with_removed: Whether to keep removed files; only vacuum needs them, and there can be many.
            at_least: A version that is known to exist.
        """
        snapshot = cls(table)
        snapshot._keeps_removed = with_removed
        snapshot._load(at_least)
        return snapshot

    def _clear(self) -> None:
        self.version = -1
        self.protocol = Protocol()
        self.metadata: Mapping[str, Any] = {}
        self._schema: pa.Schema | None = None
        self.files: dict[str, DataFile] = {}
        self.transactions: dict[str, int] = {}
        self.removed: dict[tuple[str, DeletionVector | None], int] = {}
        self.folded_ms: int | None = None
        self.read_at = time.monotonic()

    @property
    def configuration(self) -> Mapping[str, str]:
        """The table's properties."""
        return self.metadata.get("configuration") or {}

    @property
    def partition_columns(self) -> list[str]:
        """The columns by which files are partitioned."""
        return list(self.metadata.get("partitionColumns") or ())

    @property
    def fields(self) -> list[dict[str, Any]]:
        """The columns as JSON objects, as in the log."""
        found: list[dict[str, Any]] = json.loads(self.metadata["schemaString"])["fields"]
        return found

    @property
    def schema(self) -> pa.Schema:
        """The columns and their Arrow types, including partition columns."""
        if self._schema is None:
            self._schema = pa.schema(Schema.from_json(self.metadata["schemaString"]).to_arrow())
        return self._schema

    @property
    def has_vectors(self) -> bool:
        """Whether the table has the feature and writers should use it."""
        return self.protocol.has_vectors and self.configuration.get(VECTORS_PROPERTY) == "true"

    def advance(self) -> bool:
        """Read newer commits; return whether there were newer commits."""
        with Translated(self.table, "the table's log cannot be read"):
            return self._advance()

    def _advance(self) -> bool:
        names = file_names(self.table / _LOG, f"{self.version - 1:020d}.json")
        found = {int(match[1]) for name in names if (match := _COMMIT.fullmatch(name))}
        newer = {number for number in found if number > self.version}
        self.read_at = time.monotonic()
        if self.version in found and not newer:
            return False
        # Old commits were deleted, and a checkpoint replaces them; or another table was created in the directory.
        if not {self.version, self.version + 1} <= found:
            self._load(min(newer, default=0))
            return True
        for number in range(self.version + 1, max(newer) + 1):
            if number not in newer:
                raise StorageError(f"the Delta log of the table has no commit {number}", where=str(self.table))
            self.apply(number, self.read_commit(number))
        return True

    def read_commit(self, version: int) -> list[dict[str, Any]]:
        """Return the actions of a commit."""
        return _actions(self.table, f"{version:020d}.json")

    def apply(self, version: int, actions: Iterable[Mapping[str, Any]]) -> None:
        """Apply the next commit. Actions have any order; a file can be removed with one vector and added with another."""
        added = []
        for action in actions:
            if action.get("add"):
                added.append(action)
            else:
                self._apply(action)
        for action in added:
            self._apply(action)
        self.version = version

    def deleted_rows(self, files: Iterable[DataFile]) -> dict[str, Positions]:
        """Return the deleted rows of files, omitting files without deleted rows; recently read vectors are kept in memory."""
        wanted = {file.path: file.vector for file in files if file.vector is not None}
        known = {path: self._cached.get(vector) for path, vector in wanted.items()}
        found = read_vectors(self.table, [wanted[path] for path, positions in known.items() if positions is None])
        for vector, positions in found.items():
            self.keep_vector(vector, positions)
        return {path: found[wanted[path]] if positions is None else positions for path, positions in known.items()}

    def keep_vector(self, vector: DeletionVector, positions: Positions) -> None:
        """Cache the rows of a vector for deleted_rows(), evicting old vectors."""
        known = self._cached.pop(vector, None)
        self._cached_bytes += positions.nbytes - (0 if known is None else known.nbytes)
        self._cached[vector] = positions
        while self._cached_bytes > _MOST_CACHED_BYTES:
            self._cached_bytes -= self._cached.popitem(last=False)[1].nbytes

    def _load(self, at_least: int) -> None:
        for attempt in range(1, _ATTEMPTS + 1):
            self._clear()
            try:
                with Translated(self.table, "the table's log cannot be read"):
                    self._read(at_least)
                return
            except StorageError:
                if attempt == _ATTEMPTS:
                    raise

    def _read(self, at_least: int) -> None:
        names = file_names(self.table / _LOG)
        begin, checkpoint = _newest_checkpoint(names)
        for name in checkpoint:
            for action in _checkpoint_actions(self.table, name):
                if (removed := action.get("remove")) and removed.get("path") is not None:  # belongs to no live file
                    self._keep_removed(removed)
                else:
                    self._apply(action)
        self.version = begin
        commits = {int(match[1]) for name in names if (match := _COMMIT.fullmatch(name)) is not None}
        for number in range(begin + 1, max([at_least, *commits]) + 1):
            if number not in commits:
                raise StorageError(f"the Delta log of the table has no commit {number}", where=str(self.table))
            self.apply(number, self.read_commit(number))
        if not self.metadata:
            raise StorageError("there is no Delta table", where=str(self.table))

    def _apply(self, action: Mapping[str, Any]) -> None:
        if (found := action.get("add")) and found.get("path") is not None:
            own = {name: value for name, value in found.items() if name != "deletionVector" and value is not None}
            vector = _vector_of(found)
            self.files[found["path"]] = DataFile(own, vector)
            self.removed.pop((unquote(found["path"]), vector), None)
        elif (found := action.get("remove")) and found.get("path") is not None:
            self._keep_removed(found)
            self._remove(found["path"], _vector_of(found))
        elif (found := action.get("txn")) and found.get("appId") is not None:
            self.transactions[found["appId"]] = found["version"]
        elif (found := action.get("protocol")) and found.get("minReaderVersion") is not None:
            self.protocol = Protocol.from_action(found)
        elif (found := action.get("commitInfo")) and found.get("operation") == "OPTIMIZE":
            self.folded_ms = found.get("timestamp")
        elif (found := action.get("metaData")) and found.get("schemaString") is not None:
            configuration = found.get("configuration") or {}
            self.metadata = {**found, "configuration": dict(configuration)}
            self._schema = None

    def _remove(self, path: str, vector: DeletionVector | None) -> None:
        """Remove a live file, whose path can be escaped differently than in its `add` action."""
        name = unquote(path)
        if path not in self.files and (name != path or not path.isascii()):
            path = next((known for known in self.files if unquote(known) == name), path)
        live = self.files.get(path)
        if live is not None and live.vector == vector:
            del self.files[path]

    def _keep_removed(self, action: Mapping[str, Any]) -> None:
        if self._keeps_removed:
            self.removed[unquote(action["path"]), _vector_of(action)] = action.get("deletionTimestamp") or 0

    def vector_names(self, since_ms: int) -> set[str]:
        """Return the names, without directories, of the deletion-vector files that versions since the given time need.

        Args:
            since_ms: Milliseconds since 1970 UTC.

        Raises:
            DecodeError: a descriptor is invalid.
        """
        vectors = [file.vector for file in self.files.values()]
        vectors += [vector for (_, vector), removed_ms in self.removed.items() if removed_ms >= since_ms]
        paths = (vector.path for vector in vectors if vector is not None)
        return {path.rpartition("/")[2] for path in paths if path is not None}


@lru_cache(4096)
def _parse_stats(text: str) -> dict[str, Any]:
    found = json.loads(text, parse_float=Decimal, parse_constant=str)
    return found if isinstance(found, dict) else {}


def merge_on_read_refusal(snapshot: LogSnapshot) -> str | None:
    """Return the reason why Headstream must not write deletion vectors to a table, for example `row tracking`, or None."""
    protocol, configuration = snapshot.protocol, snapshot.configuration
    unknown = sorted(set(protocol.writer_features or ()) - _SUPPORTED)
    if unknown or protocol.writer > 7 or protocol.reader > 3:
        return f"the table features {', '.join(unknown)}" if unknown else f"writer version {protocol.writer}"
    for name, what in _REFUSED_SETTINGS.items():
        if configuration.get(name, "false").lower() == "true":
            return what
    if configuration.get("delta.columnMapping.mode", "none") != "none":
        return "column mapping"
    if any(name.startswith("delta.constraints.") for name in configuration):
        return "constraints"
    schema = snapshot.metadata["schemaString"]
    if any(f'"{name}' in schema for name in _REFUSED_FIELDS) or '"variant"' in schema:
        return "generated columns, identity columns, invariants or variants"
    types = {field["name"]: field["type"] for field in snapshot.fields}
    unusual = [name for name in snapshot.partition_columns if not _PARTITION_TYPES.fullmatch(str(types.get(name)))]
    if unusual:
        return f"partitions by {unusual[0]} of type {types.get(unusual[0])}"
    if any(_ABSOLUTE.match(path) for path in snapshot.files):
        return "files of another table (a shallow clone)"
    if not all(_PLAIN_PATH.fullmatch(path) for path in snapshot.files):
        # polars 2.1 silently ignores the deletion vectors of such files.
        return "partitions whose values are escaped in directory names"
    return None


def open_parquet(snapshot: LogSnapshot, file: DataFile) -> pq.ParquetFile:
    """Open a data file in any store without reading the whole file."""
    return open_parquet_file(snapshot.table, unquote(file.path), file.size)


def read_batches(snapshot: LogSnapshot, file: DataFile) -> Iterator[pa.Table]:
    """Yield the rows of a data file in order, including deleted rows, in the table's types.

    Columns that the file lacks are absent. Partition columns, which Spark writes to some files, are removed.
    """
    # A file can have other types: deltalake writes string views, which pyarrow cannot filter.
    types = {field.name: field for field in snapshot.schema if field.name not in snapshot.partition_columns}
    with Translated(snapshot.table / unquote(file.path), "the data file cannot be read"):
        parquet = open_parquet(snapshot, file)
        columns = [name for name in parquet.schema_arrow.names if name in types]
        for batch in parquet.iter_batches(_BATCH_ROWS, columns=columns):
            yield pa.table(batch).cast(pa.schema([types[name] for name in batch.schema.names]))


def _vector_of(action: Mapping[str, Any]) -> DeletionVector | None:
    described = action.get("deletionVector")
    return DeletionVector.from_action(described) if described and described.get("storageType") else None


def _newest_checkpoint(names: list[str]) -> tuple[int, list[str]]:
    """Return the version and the files of the newest complete checkpoint; -1 and no files if there is none."""
    parts: dict[tuple[int, int], list[str]] = {}
    for name in sorted(names):
        match = _CHECKPOINT.fullmatch(name)
        if match is not None:
            parts.setdefault((int(match[1]), int(match[2] or 1)), []).append(name)
    complete = [(version, found[:count]) for (version, count), found in parts.items() if len(found) >= count]
    return max(complete, default=(-1, []))


def _checkpoint_actions(table: Place, name: str) -> Iterator[dict[str, Any]]:
    if name.endswith(".json"):
        yield from _resolved(table, _actions(table, name))
        return
    try:
        file = pq.ParquetFile(pa.BufferReader(read_file(table, f"{_LOG}/{name}")))
        kinds = [field for field in file.schema_arrow if field.name in _KINDS]
        columns = [f"{kind.name}.{part.name}" for kind in kinds for part in kind.type if part.name not in _PARSED]
        for batch in file.iter_batches(columns=columns):
            yield from _resolved(table, batch.to_pylist(maps_as_pydicts="lossy"))
    except pa.ArrowException as error:
        raise StorageError(f"the checkpoint is damaged: {error}", where=f"{table}/{_LOG}/{name}") from error


def _resolved(table: Place, actions: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the actions of a checkpoint and its sidecars."""
    for action in actions:
        sidecar = action.get("sidecar")
        if sidecar and sidecar.get("path") is not None:
            yield from _checkpoint_actions(table, f"_sidecars/{sidecar['path'].rpartition('/')[2]}")
        else:
            yield action


def _actions(table: Place, name: str) -> list[dict[str, Any]]:
    """Return the actions in a log file, one per line."""
    content = read_file(table, f"{_LOG}/{name}")
    try:
        return [json.loads(line) for line in content.splitlines() if line.strip()]
    except ValueError as error:
        raise StorageError(f"the file is not JSON: {error}", where=f"{table}/{_LOG}/{name}") from error
