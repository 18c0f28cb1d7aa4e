"""Files of a Delta table at any location: complete files, new files that only one process can create, and Parquet files."""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.fs as pafs
import pyarrow.parquet as pq
from deltalake.fs import DeltaStorageHandler

from headstream.errors import StorageError
from headstream.replicate.storage.delta_places import Translated
from headstream.replicate.storage.places import Place, StorePlace
from headstream.replicate.storage.store_files import StoreFiles


def read_file(table: Place, path: str) -> bytes:
    """Return the content of a file, by its path within the table."""
    if isinstance(table, StorePlace):
        found = StoreFiles(table / path).read()
        if found is None:
            raise StorageError("the file is missing", where=f"{table}/{path}")
        return found[0]
    try:
        return (table / path).read_bytes()
    except OSError as error:
        raise StorageError(f"the file cannot be read: {error.strerror}", where=f"{table}/{path}") from error


def write_file(table: Place, path: str, content: bytes) -> None:
    """Write a file of a table under a new name."""
    if isinstance(table, StorePlace):
        StoreFiles(table / path).write(content)
        return
    with Translated(table / path, "the file cannot be written"):
        (table / path).parent.mkdir(parents=True, exist_ok=True)
        (table / path).write_bytes(content)


def create_file(table: Place, path: str, content: bytes) -> bool:
    """Create a file of a table atomically; return False if it exists. Of concurrent calls, one succeeds.

    Raises:
        StorageError: the file cannot be written; it may or may not exist.
    """
    if isinstance(table, StorePlace):
        return StoreFiles(table / path).create(content)
    file = table / path
    hidden = file.with_name(f".{file.name}.{uuid.uuid4().hex}.tmp")
    with Translated(file, "the file cannot be written"):
        try:
            hidden.write_bytes(content)
            os.link(hidden, file)  # fails if the file exists; a rename would replace it
        except FileExistsError:
            return False
        finally:
            with suppress(OSError):
                hidden.unlink()
    return True


def file_names(directory: Place, after: str = "") -> list[str]:
    """Return the names of the files in a directory that follow a given name; in an object store, also names of deeper levels."""
    if isinstance(directory, StorePlace):
        return StoreFiles(directory).names(after)
    with Translated(directory, "the directory cannot be listed"):
        return [file.name for file in directory.iterdir() if file.name > after]


def open_parquet_file(table: Place, path: str, size: int) -> pq.ParquetFile:
    """Open a Parquet file of a table without reading the whole file; `size` is the file's size, bytes."""
    with Translated(table / path, "the data file cannot be read"):
        if isinstance(table, StorePlace):
            source: Any = pafs.PyFileSystem(DeltaStorageHandler(str(table), table.delta_options, {path: size})).open_input_file(
                path
            )
            return pq.ParquetFile(source, pre_buffer=True)
        return pq.ParquetFile(Path(table / path), memory_map=True)
