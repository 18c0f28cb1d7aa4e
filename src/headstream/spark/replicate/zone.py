"""The schema zone: every schema that metadata messages have brought, durable, keyed by schema id.

One file a schema, `<schema id, percent-encoded>.json`, written whole and renamed into place: any number of
processes may read it while others fill it, and reading it needs neither Java nor a lock. A file is never changed:

    {"arrived_us": 1690000000000000, "topic": "cdc/metadata", "partition": 1, "offset": 0, "metadata": {...}}
"""

from __future__ import annotations

import json
import os
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headstream.codec.replicate import TableMetadata
from headstream.errors import SchemaError, StorageError

__all__ = ["SchemaZone", "ZoneEntry"]

_SUFFIX: Final = ".json"
_MAX_ID_CHARACTERS: Final = 80
"""A schema id becomes a file name, percent-encoded: three characters each at worst, and file names end at 255."""


@dataclass(frozen=True, slots=True)
class ZoneEntry:
    """One schema and where it came from.

    Args:
        metadata: The schema.
        arrived_us: When the zone took it, microseconds since 1970 UTC.
        topic: The topic of the metadata message.
        partition: Its partition.
        offset: Its offset.
    """

    metadata: TableMetadata
    arrived_us: int
    topic: str
    partition: int
    offset: int


class SchemaZone:
    """A directory of schemas; entries are cached once read, since they never change.

    Args:
        directory: Where the files are; made at the first add().
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._entries: dict[str, ZoneEntry] = {}

    def add(self, entry: ZoneEntry) -> bool:
        """Keep a schema; return whether its id is new.

        Raises:
            SchemaError: the id is there already with another schema, or cannot be an id.
            StorageError: the operating system refused the file.
        """
        metadata = entry.metadata
        present = self.find(metadata.schema_id)
        new = present is None and self._write_entry(entry)
        kept = self.find(metadata.schema_id)
        if kept is not None and kept.metadata != metadata:
            raise SchemaError(
                f"schema id {metadata.schema_id} is known with another schema",
                where=f"{entry.topic} partition {entry.partition} offset {entry.offset}",
                advice=f"The zone keeps the first one, of {kept.topic} partition {kept.partition} offset {kept.offset}",
            )
        return new

    def _write_entry(self, entry: ZoneEntry) -> bool:
        """Write an entry's file; return False where another process was first."""
        metadata = entry.metadata
        document = {
            "arrived_us": entry.arrived_us,
            "topic": entry.topic,
            "partition": entry.partition,
            "offset": entry.offset,
            "metadata": json.loads(metadata.to_json()),
        }
        path = self._path(metadata.schema_id)
        content = json.dumps(document, ensure_ascii=False, indent=1).encode()
        try:
            return self._write(path, content)
        except OSError as error:
            raise StorageError(f"cannot write to the schema zone: {error.strerror}", where=str(path)) from error

    def find(self, schema_id: str) -> ZoneEntry | None:
        """Return the entry of a schema id, or None; asks the directory again for ids not seen yet.

        Raises:
            SchemaError: the file is there but is not a zone entry.
        """
        entry = self._entries.get(schema_id)
        if entry is None and len(schema_id) <= _MAX_ID_CHARACTERS and schema_id:
            entry = self._read(self._path(schema_id))
            if entry is not None:
                self._entries[schema_id] = entry
        return entry

    def find_namespace(self, namespace: str) -> ZoneEntry:
        """Return the newest schema of the table that an Avro namespace ends with: `...<schema>.<table>`.

        Raises:
            SchemaError: the zone knows no such table, or the namespace fits several.
        """
        fitting = []
        for entry in self.entries():
            lineage = entry.metadata.lineage
            if f".{namespace}".endswith(f".{lineage.schema}.{lineage.table}"):
                fitting.append(entry)
        tables = {(entry.metadata.lineage.schema, entry.metadata.lineage.table) for entry in fitting}
        if len(tables) != 1:
            known = "no table" if not tables else "several tables"
            raise SchemaError(
                f"the message has no schema id, and the namespace {namespace!r} of its own schema fits {known} of the schema zone"
            )
        return max(fitting, key=lambda entry: entry.metadata.lineage.table_version)

    def entries(self) -> Iterator[ZoneEntry]:
        """Iterate over every schema, in order of arrival.

        Raises:
            SchemaError: a file is not a zone entry.
        """
        names = sorted(self.directory.glob(f"*{_SUFFIX}")) if self.directory.is_dir() else []
        found = [self.find(urllib.parse.unquote(path.name[: -len(_SUFFIX)])) for path in names]
        return iter(sorted((e for e in found if e is not None), key=lambda e: (e.arrived_us, e.metadata.schema_id)))

    def _path(self, schema_id: str) -> Path:
        if not 0 < len(schema_id) <= _MAX_ID_CHARACTERS:
            raise SchemaError(f"a schema id has 1 to {_MAX_ID_CHARACTERS} characters, this one has {len(schema_id)}")
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
            os.link(temporary, path)  # not rename: of two processes that bring one id, the first stays
        except FileExistsError:
            return False
        finally:
            temporary.unlink()
        return True

    @staticmethod
    def _read(path: Path) -> ZoneEntry | None:
        try:
            document = json.loads(path.read_bytes())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"cannot read the schema zone: {error.strerror}", where=str(path)) from error
        except ValueError as error:
            raise SchemaError(f"not a schema zone entry: {error}", where=str(path), advice="Move the file away") from None
        try:
            return ZoneEntry(
                TableMetadata.from_json(json.dumps(document["metadata"])),
                document["arrived_us"],
                document["topic"],
                document["partition"],
                document["offset"],
            )
        except (KeyError, TypeError) as error:
            raise SchemaError(f"not a schema zone entry: {error} is missing", where=str(path)) from None
