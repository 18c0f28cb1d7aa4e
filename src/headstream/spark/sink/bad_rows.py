"""Stores rows that a topic rejects as Parquet files, with all columns and the reason.

    badRowsPath/.staged/<writer>-<epoch>/<task>-<attempt>.parquet     while the tasks run
    badRowsPath/<writer>-<epoch>-<task>.parquet                       moved there just before the good rows are committed

    columns of the row | topic STRING, if the row has no column `topic` | reason STRING

Bad rows are published before the batch's good rows are committed to the log. If a job crashes in between, the repeated batch
replaces the files, so each bad row is stored once.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from headstream.errors import HeadstreamError
from headstream.log.segments.files import storage_error

_STAGED: Final = ".staged"
_ROWS: Final = 1000


class BadRowsWriter:
    """Writes the bad rows of one task; the first row creates the file."""

    def __init__(self, directory: str, writer: str, epoch: int, name: str) -> None:
        self._path = _staged(directory, writer, epoch) / f"{name}.parquet"
        self._rows: list[pa.RecordBatch] = []
        self._file: pq.ParquetWriter | None = None

    def add(self, row: pa.RecordBatch, topic: str | None, reason: HeadstreamError) -> None:
        """Add a rejected row."""
        if "topic" not in row.schema.names:
            row = row.append_column("topic", pa.array([topic], pa.string()))
        name = "reason"
        while name in row.schema.names:
            name = f"_{name}"
        self._rows.append(row.append_column(name, pa.array([str(reason)], pa.string())))
        if len(self._rows) == _ROWS:
            self._flush()

    def _flush(self) -> None:
        table = pa.Table.from_batches(self._rows)
        self._rows = []
        try:
            if self._file is None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._file = pq.ParquetWriter(self._path, table.schema)
            self._file.write_table(table)
        except OSError as error:
            raise storage_error(error, "write bad rows", str(self._path)) from error

    def finish(self) -> str | None:
        """Return the file's name; None if there are no bad rows."""
        if self._rows:
            self._flush()
        if self._file is None:
            return None
        self._file.close()
        return self._path.name

    def discard(self) -> None:
        """Remove the file."""
        if self._file is not None:
            self._file.close()
            self._path.unlink(missing_ok=True)


def _staged(directory: str, writer: str, epoch: int) -> Path:
    return Path(directory) / _STAGED / f"{quote(writer, safe='')}-{epoch}"


def publish_bad_rows(directory: str, writer: str, epoch: int, names: list[str]) -> None:
    """Publish the bad rows of an epoch's committed tasks, replacing files that an earlier attempt published."""
    staged = _staged(directory, writer, epoch)
    try:
        for old in Path(directory).glob(f"{_escape(staged.name)}-*.parquet"):
            old.unlink(missing_ok=True)
        for name in names:
            (staged / name).replace(Path(directory) / f"{staged.name}-{name.partition('-')[0]}.parquet")
    except OSError as error:
        raise storage_error(error, "publish bad rows", directory) from error
    shutil.rmtree(staged, ignore_errors=True)


def _escape(text: str) -> str:
    """Return a pattern that matches a string literally."""
    return "".join(f"[{character}]" if character in "*?[" else character for character in text)


def discard_bad_rows(directory: str, writer: str, epoch: int) -> None:
    """Remove the bad rows of an aborted epoch."""
    shutil.rmtree(_staged(directory, writer, epoch), ignore_errors=True)
