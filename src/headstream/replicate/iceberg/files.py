"""The files of a Delta table's version as an Iceberg snapshot has them: data files, and its deletion vectors as position deletes.

The position deletes of a data file are one Parquet file, named by the data file and its vector. So the files that a snapshot
should have follow from Delta's log alone, and those that it has are compared by their names.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from headstream.errors import SchemaError
from headstream.replicate.iceberg.access import FileFacts, file_location
from headstream.replicate.iceberg.schema import IcebergSchema, read_partition_value, write_bound
from headstream.replicate.storage.deletion_vectors import Positions
from headstream.replicate.storage.delta_log import DataFile, LogSnapshot, open_parquet

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

__all__ = ["FOLDER", "WantedFiles", "describe_data", "metadata_location", "write_deletes"]

FOLDER: Final = "_iceberg"
"""The directory in a Delta table for all that is Iceberg's: Delta's vacuum passes over it, as its name begins with _."""
_PATH_ID: Final = 2147483546
_POSITION_ID: Final = 2147483545
_THREADS: Final = 8
_DELETES_SCHEMA: Final = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": str(_PATH_ID)}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": str(_POSITION_ID)}),
    ]
)


def metadata_location(log: LogSnapshot) -> str:
    """Return the location of the directory for Iceberg's files."""
    return f"{file_location(log.table)}/{FOLDER}"


@dataclass(frozen=True, slots=True)
class WantedFiles:
    """The files of a version.

    Args:
        data: Location -> data file.
        deletes: Location of a file with position deletes -> the data file.
    """

    data: Mapping[str, DataFile] = field(default_factory=dict)
    deletes: Mapping[str, DataFile] = field(default_factory=dict)

    @classmethod
    def of(cls, log: LogSnapshot) -> WantedFiles:
        """Return those of the version that was read."""
        root, folder = file_location(log.table), metadata_location(log)
        data = {_locate(root, file): file for file in log.files.values()}
        with_vectors = (file for file in data.values() if file.vector is not None)
        return cls(data, {f"{folder}/deletes-{_digest(file)}.parquet": file for file in with_vectors})


def _locate(root: str, file: DataFile) -> str:
    path = unquote(file.path)
    if "://" in path or path.startswith("/"):
        raise SchemaError("a file of another table (a shallow clone) cannot be a file of an Iceberg table", where=path)
    return f"{root}/{path}"


def _digest(file: DataFile) -> str:
    return hashlib.sha256(f"{unquote(file.path)}\0{file.vector}".encode()).hexdigest()[:32]


def describe_data(log: LogSnapshot, schema: IcebergSchema, location: str, file: DataFile) -> FileFacts:
    """Return what Delta's log says of a data file.

    Raises:
        StorageError: the log has no number of rows, and the file cannot be read.
    """
    stats = json.loads(file.action.get("stats") or "{}", parse_float=Decimal) or {}
    rows = stats.get("numRecords")
    if rows is None:
        rows = open_parquet(log, file).metadata.num_rows
    nulls = stats.get("nullCount") or {}
    counts = {number: int(nulls[name]) for name, (number, _) in schema.physical.items() if _is_count(nulls.get(name))}
    lower, upper = (_bounds(schema, stats.get(f"{side}Values") or {}, is_upper=side == "max") for side in ("min", "max"))
    values = dict.fromkeys(counts, int(rows))
    return FileFacts(location, file.size, int(rows), _partition(log, schema, file), values, counts, lower, upper)


def _is_count(value: Any) -> bool:
    return type(value) is int


def _bounds(schema: IcebergSchema, values: Mapping[str, Any], *, is_upper: bool) -> dict[int, bytes]:
    found = {}
    for name, value in values.items():
        if name in schema.physical:
            number, kind = schema.physical[name]
            bound = write_bound(kind, value, upper=is_upper)
            if bound is not None:
                found[number] = bound
    return found


def _partition(log: LogSnapshot, schema: IcebergSchema, file: DataFile) -> list[Any]:
    if not schema.spec.fields:
        return []
    numbers = {number: (name, kind) for name, (number, kind) in schema.physical.items()}
    stored = file.partition_values
    found = []
    for part in schema.spec.fields:
        name, kind = numbers[part.source_id]
        try:
            found.append(read_partition_value(kind, stored.get(name)))
        except (ValueError, ArithmeticError) as error:
            raise SchemaError(
                f"the partition's value {stored.get(name)!r} is not of type {kind}", where=str(log.table)
            ) from error
    return found


def write_deletes(log: LogSnapshot, schema: IcebergSchema, io: FileIO, wanted: Mapping[str, DataFile]) -> Iterable[FileFacts]:
    """Write files with position deletes.

    Args:
        wanted: Location -> the data file.

    Raises:
        StorageError: a deletion vector cannot be read.
    """
    if not wanted:
        return []
    root, positions = file_location(log.table), log.deleted_rows(wanted.values())

    def write(item: tuple[str, DataFile]) -> FileFacts:
        location, file = item
        content = _encode(_locate(root, file), positions[file.path])
        with io.new_output(location).create(overwrite=True) as stream:
            stream.write(content)
        target = _locate(root, file).encode()
        bounds = {_PATH_ID: target}  # equal bounds tell readers that the deletes are those of one file
        partition = _partition(log, schema, file)
        return FileFacts(location, len(content), len(positions[file.path]), partition, {}, {}, bounds, bounds)

    with ThreadPoolExecutor(_THREADS, "headstream-iceberg-deletes") as threads:
        return list(threads.map(write, wanted.items()))


def _encode(location: str, positions: Positions) -> bytes:
    rows = pa.array(positions, pa.int64())
    table = pa.table([pa.array([location]).take(pa.nulls(len(rows), pa.int64()).fill_null(0)), rows], schema=_DELETES_SCHEMA)
    sink = pa.BufferOutputStream()
    options: dict[str, Any] = {"compression": "zstd", "use_dictionary": ["file_path"]}
    pq.write_table(table, sink, column_encoding={"pos": "DELTA_BINARY_PACKED"}, store_schema=False, **options)
    return bytes(sink.getvalue())
