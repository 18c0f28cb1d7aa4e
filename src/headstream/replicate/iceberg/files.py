"""The files of a Delta table's version for an Iceberg snapshot: data files, and deletion vectors as position deletes.

The position deletes of a data file are one Parquet file, whose name is derived from the data file and its vector. So Delta's log
determines the expected files of a snapshot, which are compared with the actual files by name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile as IcebergFile

from headstream.errors import SchemaError
from headstream.replicate.iceberg.access import FileStats, make_file
from headstream.replicate.iceberg.schema import IcebergSchema, read_partition_value, write_bound
from headstream.replicate.storage.delta_log import DataFile, LogSnapshot, open_parquet
from headstream.replicate.storage.places import Place, StorePlace

FOLDER: Final = "_iceberg"
"""The directory for Iceberg files in a Delta table. Delta's vacuum skips it, because the name begins with _."""
_PATH_ID: Final = 2147483546
_POSITION_ID: Final = 2147483545
_THREADS: Final = 8
_DELETES_SCHEMA: Final = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": str(_PATH_ID)}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": str(_POSITION_ID)}),
    ]
)


def locate(table: Place, path: str = "") -> str:
    """Return the location of a table, or of a file in it, without escapes, as Iceberg readers require."""
    root = str(table) if isinstance(table, StorePlace) else f"file://{table.absolute().as_posix()}"
    return f"{root}/{path}" if path else root


class WantedFiles(NamedTuple):
    """The files of a version: location -> data file, and location of position deletes -> data file."""

    data: Mapping[str, DataFile]
    deletes: Mapping[str, DataFile]

    @property
    def digest(self) -> str:
        """A digest of all locations."""
        return hashlib.sha256("\0".join(sorted([*self.data, *self.deletes])).encode()).hexdigest()

    @classmethod
    def of(cls, log: LogSnapshot) -> WantedFiles:
        """Return the files of the log's version."""
        data = {_locate_data(log, file): file for file in log.files.values()}
        with_vectors = {at: file for at, file in data.items() if file.vector is not None}
        return cls(data, {locate(log.table, f"{FOLDER}/deletes-{_digest(file)}.parquet"): file for file in with_vectors.values()})


def _locate_data(log: LogSnapshot, file: DataFile) -> str:
    path = unquote(file.path)
    if "://" in path or path.startswith("/"):
        raise SchemaError("files of another table (in a shallow clone) cannot be used in an Iceberg table", where=path)
    return locate(log.table, path)


def _digest(file: DataFile) -> str:
    return hashlib.sha256(f"{unquote(file.path)}\0{file.vector}".encode()).hexdigest()[:32]


def describe_data(log: LogSnapshot, schema: IcebergSchema, location: str, file: DataFile) -> IcebergFile:
    """Return a data file from Delta's log; the file is read if the log lacks the number of rows."""
    stats = file.stats
    rows = stats.get("numRecords")
    if rows is None:
        rows = open_parquet(log, file).metadata.num_rows
    counted = stats.get("nullCount") or {}
    nulls = {number: counted[name] for name, (number, _) in schema.physical.items() if type(counted.get(name)) is int}
    lower, upper = (_bounds(schema, stats.get(name) or {}) for name in ("minValues", "maxValues"))
    columns = FileStats(nulls, lower, upper)
    return make_file(location, file.size, int(rows), _partition(log, schema, file), columns, deletes=False)


def _bounds(schema: IcebergSchema, values: Mapping[str, Any]) -> dict[int, bytes]:
    known = [(*schema.physical[name], value) for name, value in values.items() if name in schema.physical]
    found = ((number, write_bound(kind, value)) for number, kind, value in known)
    return {number: bound for number, bound in found if bound is not None}


def _partition(log: LogSnapshot, schema: IcebergSchema, file: DataFile) -> list[Any]:
    numbers = {number: (name, kind) for name, (number, kind) in schema.physical.items()}
    stored, found = file.partition_values, []
    for part in schema.spec.fields:
        name, kind = numbers[part.source_id]
        try:
            found.append(read_partition_value(kind, stored.get(name)))
        except (ValueError, ArithmeticError) as error:
            what = f"the partition's value {stored.get(name)!r} is not of type {kind}"
            raise SchemaError(what, where=str(log.table)) from error
    return found


def write_deletes(log: LogSnapshot, schema: IcebergSchema, io: FileIO, wanted: Mapping[str, DataFile]) -> list[IcebergFile]:
    """Write files with position deletes; `wanted`: location -> data file."""
    if not wanted:
        return []
    positions = log.deleted_rows(wanted.values())

    def write(location: str, file: DataFile) -> IcebergFile:
        target, rows = _locate_data(log, file), pa.array(positions[file.path], pa.int64())
        table = pa.table([pa.repeat(target, len(rows)), rows], schema=_DELETES_SCHEMA)
        sink = pa.BufferOutputStream()
        options: dict[str, Any] = {"use_dictionary": ["file_path"], "column_encoding": {"pos": "DELTA_BINARY_PACKED"}}
        pq.write_table(table, sink, compression="zstd", store_schema=False, **options)
        content = sink.getvalue()
        with io.new_output(location).create(overwrite=True) as stream:
            stream.write(content)
        bounds = {_PATH_ID: target.encode()}  # equal bounds show readers that all deletes belong to one file
        stats = FileStats({}, bounds, bounds)
        return make_file(location, content.size, len(rows), _partition(log, schema, file), stats, deletes=True)

    with ThreadPoolExecutor(_THREADS, "headstream-iceberg-deletes") as threads:
        return list(threads.map(write, wanted.keys(), wanted.values()))
