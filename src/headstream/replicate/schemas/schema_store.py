"""The schema store: durably stores every schema received in metadata messages, by schema id.

There is one file per schema, `<schema id, percent-encoded>.json`, which is written completely and then linked to its name. So
processes can read the store while other processes write to it, without Java or a lock. A file is one line and never changes:

    {"arrived_us": 1690000000000000, "topic": "cdc/metadata", "partition": 1, "offset": 0, "metadata": {...}}

If the id of a schema already belongs to another table's schema, the schema is stored as `<id>@table-<hash of its table>`. The
topics or the rows' embedded schemas then determine the table (schema_catalog.py).

A message that names only its table waits for `table:<schema>/<table>`, for which find() returns the table's newest schema. If the
message fits none of the table's first n schemas, it waits for `table:<schema>/<table>?after=<n>`.

`.zone` contains the unique name of the schema store, by which a process on another machine checks that it sees the same
directory, and not a local directory at the same path. Schemas of a registry (registry.py describes their ids) are fetched on
first use and stored as files too. In an object store the files are objects (schema_objects.py), and each process has a copy.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import urllib.parse
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final, Protocol

import pyarrow as pa

from headstream.errors import SchemaError, StorageError
from headstream.replicate.codec import TableMetadata
from headstream.replicate.schemas.schema_objects import SchemaObjects
from headstream.replicate.storage.places import StorePlace, bind
from headstream.replicate.storage.store_files import StoreFiles

_SUFFIX: Final = ".json"
_MAX_ID_CHARACTERS: Final = 80
"""Maximum length of a schema id: percent-encoding at most triples the length, and file names have at most 255 characters."""
_TABLE_PREFIX: Final = "table:"
_AFTER: Final = "?after="
_SHARED: Final = "@table-"
_MARK_NAME: Final = ".zone"

SCHEMA_LIST: Final = pa.schema(
    [
        pa.field("schema_id", pa.string(), nullable=False),
        pa.field("server", pa.string()),
        pa.field("task", pa.string()),
        pa.field("schema", pa.string()),
        pa.field("table", pa.string()),
        pa.field("table_version", pa.int64()),
        pa.field("altered", pa.string()),  # the source's time of the version, as received
        pa.field("key_columns", pa.list_(pa.string())),
        pa.field(
            "columns",
            pa.list_(
                pa.struct(
                    [
                        pa.field("name", pa.string()),
                        pa.field("ordinal", pa.int32()),
                        pa.field("type", pa.string()),
                        pa.field("length", pa.int64()),
                        pa.field("precision", pa.int32()),
                        pa.field("scale", pa.int32()),
                        pa.field("primary_key_position", pa.int32()),
                        pa.field("nullable", pa.bool_()),
                    ]
                )
            ),
        ),
        pa.field("data_schema", pa.string()),
        pa.field("arrived", pa.timestamp("us", "UTC")),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
    ]
)
"""The columns of SchemaStore.table()."""


def table_id(schema: str, table: str, after: int = 0) -> str:
    """Return the pseudo id for which a message waits if it names only a table and fits none of its first `after` schemas."""
    name = f"{_TABLE_PREFIX}{urllib.parse.quote(schema, safe='')}/{urllib.parse.quote(table, safe='')}"
    return f"{name}{_AFTER}{after}" if after else name


def shared_id(schema_id: str, schema: str, table: str) -> str:
    """Return the id under which a schema is stored if its own id already belongs to the schema of another table."""
    return f"{schema_id}{_SHARED}{hashlib.blake2b(table_id(schema, table).encode(), digest_size=8).hexdigest()}"


def check_schema_store(directory: Path, mark: str, place: StorePlace | None = None) -> None:
    """Check that this process sees the schema store that another process writes.

    Otherwise every schema would seem missing, and all messages would wait.

    Args:
        place: The URI of the store, if it is in an object store; the directory is then not checked.

    Raises:
        StorageError: the schema store is missing, or is another schema store.
    """
    if place is not None:
        read = StoreFiles(place / _MARK_NAME).read()
        found = None if read is None else read[0].decode()
    else:
        try:
            found = (directory / _MARK_NAME).read_text()
        except OSError:
            found = None
    if found != mark:
        raise StorageError(
            f"this executor cannot access the driver's schema store: found {'no' if found is None else 'another'} schema store",
            where=f"{directory if place is None else place} on {socket.gethostname()}",
            advice="Set --zone or zone to a URI of an object store, or to a directory shared by the driver and the executors",
        )


@dataclass(frozen=True, slots=True)
class StoredSchema:
    """A schema and its origin.

    Args:
        arrived_us: Time at which the schema was stored, microseconds since 1970 UTC.
    """

    metadata: TableMetadata
    arrived_us: int
    topic: str
    partition: int
    offset: int

    @property
    def table(self) -> tuple[str, str]:
        """Source schema and table."""
        return self.metadata.lineage.schema, self.metadata.lineage.table


class SchemaProvider(Protocol):
    """A source of schemas that do not arrive in metadata messages."""

    def fetch(self, schema_id: str) -> StoredSchema | None:
        """Return the schema of an id; None if the id has a different form, or the schema is missing or not yet available."""


class SchemaStore:
    """A directory of schemas. Entries never change, so they are cached.

    Args:
        provider: Fetches schemas that have no file.
        place: The URI of the store, if it is in an object store.
    """

    def __init__(self, directory: Path, provider: SchemaProvider | None = None, place: StorePlace | None = None) -> None:
        self.directory = directory
        self.place = place
        self._objects = None if place is None else SchemaObjects(place, directory)
        self._provider = provider
        self._entries: dict[str, StoredSchema] = {}
        self._scanned: set[str] = set()
        self._by_table: dict[tuple[str, str], list[StoredSchema]] = {}
        self._sharing: dict[str, list[StoredSchema]] = {}

    @property
    def resolved_place(self) -> StorePlace | None:
        """The URI with all settings of its store, because executors have different environments."""
        return None if self.place is None else bind(self.place, self.place.access.resolved())

    def add(self, entry: StoredSchema) -> bool:
        """Store a schema; return whether it is new, under its id or the id for its table.

        Raises:
            SchemaError: the id is stored with a different schema of the table, or is invalid.
            StorageError: the file cannot be written.
        """
        metadata = entry.metadata
        present = self.find(metadata.schema_id)
        new = present is None and self._write_entry(entry)
        kept = self.find(metadata.schema_id)
        if kept is not None and kept.table != entry.table:
            own_id = shared_id(metadata.schema_id, *entry.table)
            new = self.add(replace(entry, metadata=replace(metadata, schema_id=own_id)))
            self.scan()
            return new
        if kept is not None and kept.metadata != metadata:
            raise SchemaError(
                f"schema id {metadata.schema_id} already has a different schema",
                where=f"{entry.topic} partition {entry.partition} offset {entry.offset}",
                advice=f"The schema store keeps the schema from {kept.topic} partition {kept.partition} offset {kept.offset}",
            )
        return new

    def adopt(self, entry: StoredSchema) -> None:
        """Store a schema whose id is derived from its columns, unless it is already stored.

        Raises:
            StorageError: the file cannot be written.
        """
        if self.find(entry.metadata.schema_id) is None:
            self._write_entry(entry)

    def _write_entry(self, entry: StoredSchema) -> bool:
        """Write an entry's file; return False if another process was first."""
        metadata = entry.metadata
        document = {
            "arrived_us": entry.arrived_us,
            "topic": entry.topic,
            "partition": entry.partition,
            "offset": entry.offset,
            "metadata": json.loads(metadata.to_json()),
        }
        path = self._path(metadata.schema_id)
        content = json.dumps(document, ensure_ascii=False).encode() + b"\n"
        if self._objects is not None:
            return self._objects.create(path.name, content)
        try:
            return self._write(path, content)
        except OSError as error:
            raise StorageError(f"cannot write to the schema store: {error.strerror}", where=str(path)) from error

    def mark(self) -> str:
        """Return the schema store's unique name, created at the first call, for check_schema_store().

        Raises:
            StorageError: the directory or the store cannot be written to.
        """
        if self._objects is not None:
            return self._objects.mark()
        path = self.directory / _MARK_NAME
        try:
            self._write(path, uuid.uuid4().hex.encode())
            return path.read_text()
        except OSError as error:
            raise StorageError(f"cannot write to the schema store: {error.strerror}", where=str(path)) from error

    def expire(self) -> None:
        """Make the next search for a table's schemas include schemas that other processes have stored."""
        if self._objects is not None:
            self._objects.expire()

    def find(self, schema_id: str) -> StoredSchema | None:
        """Return the entry of a schema id, or None; reads the directory again for new ids.

        Raises:
            SchemaError: the file is not a stored schema.
        """
        if (entry := self._entries.get(schema_id)) is not None:
            return entry
        if schema_id.startswith(_TABLE_PREFIX):
            name, _, after = schema_id[len(_TABLE_PREFIX) :].partition(_AFTER)
            schema, table = (urllib.parse.unquote(part) for part in name.split("/"))
            history = self.history(schema, table)
            return history[-1] if len(history) > int(after or 0) else None
        if 0 < len(schema_id) <= _MAX_ID_CHARACTERS:
            entry = self._find_file(self._path(schema_id)) or self._fetch(schema_id)
            if entry is not None:
                self._entries[schema_id] = entry
        return entry

    def _find_file(self, path: Path) -> StoredSchema | None:
        entry = self._read(path)
        if entry is None and self._objects is not None:
            self._objects.look_up(path.name)
            return self._read(path)
        return entry

    def _fetch(self, schema_id: str) -> StoredSchema | None:
        entry = None if self._provider is None else self._provider.fetch(schema_id)
        if entry is not None and not self._write_entry(entry):
            return self._read(self._path(schema_id))
        return entry

    def sharing(self, schema_id: str) -> list[StoredSchema]:
        """Return the schemas of other tables with this schema id, as of the last scan()."""
        if not self._scanned:
            self.scan()
        return self._sharing.get(schema_id, [])

    def history(self, schema: str, table: str, *, task: str | None = None) -> list[StoredSchema]:
        """Return every schema of a table, the oldest first; with `task`, only schemas of this Replicate task."""
        self.scan()
        found = self._by_table.get((schema, table), [])
        return [entry for entry in found if task is None or entry.metadata.lineage.task == task]

    def scan(self) -> int:
        """Read new files; return the number of schemas. Files that are not entries are ignored."""
        for name in self._file_names() - self._scanned:
            self._scanned.add(name)
            try:
                entry = self.find(urllib.parse.unquote(name[: -len(_SUFFIX)]))
            except SchemaError:
                continue
            if entry is not None and entry.metadata.columns:  # a schema of Debezium's envelope belongs to no table
                own_id, shares, _ = entry.metadata.schema_id.rpartition(_SHARED)
                if shares:
                    self._sharing.setdefault(own_id, []).append(entry)
                history = self._by_table.setdefault(entry.table, [])
                history.append(entry)
                history.sort(key=lambda e: (e.metadata.lineage.table_version, e.arrived_us, e.metadata.schema_id))
        return len(self._scanned)

    def tables(self) -> dict[tuple[str, str], list[StoredSchema]]:
        """Return the schemas of every table, as of the last scan(): (schema, table) -> history."""
        return self._by_table

    def table(self) -> pa.Table:
        """Return every schema as a row of SCHEMA_LIST, in order of arrival; usable with `spark.createDataFrame`.

        Raises:
            SchemaError: a file is not a stored schema.
        """
        rows = []
        for entry in self.entries():
            metadata, lineage = entry.metadata, entry.metadata.lineage
            rows.append(
                {
                    "schema_id": metadata.schema_id,
                    "server": lineage.server,
                    "task": lineage.task,
                    "schema": lineage.schema,
                    "table": lineage.table,
                    "table_version": lineage.table_version,
                    "altered": lineage.timestamp,
                    "key_columns": list(metadata.key_columns),
                    "columns": [asdict(column) for column in metadata.columns],
                    "data_schema": metadata.data_schema,
                    "arrived": entry.arrived_us,
                    "topic": entry.topic,
                    "partition": entry.partition,
                    "offset": entry.offset,
                }
            )
        return pa.Table.from_pylist(rows, schema=SCHEMA_LIST)

    def find_namespace(self, namespace: str) -> tuple[str, str]:
        """Return the schema and name of the table at the end of an Avro namespace, `...<schema>.<table>`.

        Raises:
            SchemaError: the schema store has no schema of the table, or the namespace fits several tables.
        """
        self.scan()
        fitting = [name for name in self._by_table if f".{namespace}".endswith(f".{name[0]}.{name[1]}")]
        if len(fitting) != 1:
            known = "no table" if not fitting else "several tables"
            raise SchemaError(
                f"the message has no schema id, and the namespace {namespace!r} of its schema matches {known} in the schema store"
            )
        return fitting[0]

    def entries(self) -> Iterator[StoredSchema]:
        """Iterate over every schema, in order of arrival.

        Raises:
            SchemaError: a file is not a stored schema.
        """
        found = [self.find(urllib.parse.unquote(name[: -len(_SUFFIX)])) for name in sorted(self._file_names())]
        return iter(sorted((e for e in found if e is not None), key=lambda e: (e.arrived_us, e.metadata.schema_id)))

    def _file_names(self) -> set[str]:
        if self._objects is not None:
            self._objects.refresh()
        try:
            with os.scandir(self.directory) as files:
                return {file.name for file in files if file.name.endswith(_SUFFIX) and not file.name.startswith(".")}
        except FileNotFoundError:
            return set()
        except OSError as error:
            raise StorageError(f"cannot read the schema store: {error.strerror}", where=str(self.directory)) from error

    def _path(self, schema_id: str) -> Path:
        if not 0 < len(schema_id) <= _MAX_ID_CHARACTERS:
            raise SchemaError(f"a schema id must have 1 to {_MAX_ID_CHARACTERS} characters, not {len(schema_id)}")
        name = urllib.parse.quote(schema_id, safe="").replace(".", "%2E")
        return self.directory / f"{name}{_SUFFIX}"

    def _write(self, path: Path, content: bytes) -> bool:
        self.directory.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(temporary, path)  # not rename: if two processes store one id, the first wins
        except FileExistsError:
            return False
        finally:
            temporary.unlink()
        return True

    @staticmethod
    def _read(path: Path) -> StoredSchema | None:
        try:
            document = json.loads(path.read_bytes())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"cannot read the schema store: {error.strerror}", where=str(path)) from error
        except ValueError as error:
            raise SchemaError(f"not a schema store entry: {error}", where=str(path), advice="Move the file away") from None
        try:
            return StoredSchema(
                TableMetadata.from_json(json.dumps(document["metadata"])),
                document["arrived_us"],
                document["topic"],
                document["partition"],
                document["offset"],
            )
        except (KeyError, TypeError) as error:
            raise SchemaError(f"not a schema store entry: {error} is missing", where=str(path)) from None
