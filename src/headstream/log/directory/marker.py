"""The marker: the file that makes a directory a log, with its format and identity.

    {"format": 1, "identity": "3b1f...", "created_us": 1690000000000000}

    missing or empty directory    no log yet: the first write creates the log
    other files, no marker        NotALogError: nothing is written to a directory with other files
    a greater format              LogVersionError

The marker is written last when a log is created, so a log with a marker is complete.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Final

from headstream.errors import CorruptLogError, LogVersionError, NotALogError
from headstream.log.segments.files import ReadFile
from headstream.log.segments.layout import CATALOG_NAME, FORMAT_VERSION, LOCK_NAME, MARKER_NAME, STREAMS_NAME
from headstream.log.system.files import Files

_MAX_BYTES: Final = 65_536
_OWN_NAMES: Final = (LOCK_NAME, f"{MARKER_NAME}.new", STREAMS_NAME)
"""Files that are written before the marker when a log is created, in addition to the catalog's files."""


@dataclass(frozen=True, slots=True)
class Marker:
    """Content of the marker; the identity is a UUID that changes when a log is deleted and recreated."""

    format: int
    identity: str
    created_us: int


def read_marker(root: str, files: Files) -> Marker | None:
    """Return the marker of a log; None if the log does not exist yet.

    Raises:
        NotALogError: the directory contains other files.
        LogVersionError: a newer version of Headstream wrote the log.
        CorruptLogError: the marker or the catalog is damaged or missing.
    """
    names = files.list_names(root)
    if names is None:
        return None
    if MARKER_NAME not in names:
        strange = sorted(name for name in names if name not in _OWN_NAMES and not name.startswith(CATALOG_NAME))
        if strange:
            raise NotALogError(
                f"the directory is not a log: it contains {strange[0]!r} but no {MARKER_NAME}",
                where=root,
                advice="Specify a log directory, or an empty or missing directory",
            )
        return None
    marker = _decode(_read_whole(f"{root}/{MARKER_NAME}", files), f"{root}/{MARKER_NAME}")
    if marker.format > FORMAT_VERSION:
        raise LogVersionError(
            f"the log has format {marker.format}, but this version of Headstream reads {FORMAT_VERSION}",
            where=root,
            advice="Use the Headstream version that wrote the log, or a newer version",
        )
    return marker


def write_marker(root: str, files: Files, marker: Marker) -> None:
    """Write the marker, which makes a directory a log."""
    files.replace(f"{root}/{MARKER_NAME}", json.dumps(asdict(marker)).encode() + b"\n")


def _read_whole(path: str, files: Files) -> bytes:
    file: ReadFile | None = files.open_read(path)
    if file is None:
        return b""
    try:
        buffer = memoryview(bytearray(min(file.size_bytes(), _MAX_BYTES)))
        return bytes(buffer[: file.read_into(buffer, 0)])
    finally:
        file.close()


def _decode(data: bytes, path: str) -> Marker:
    try:
        members = json.loads(data)
        marker = Marker(members["format"], members["identity"], members["created_us"])
    except (ValueError, TypeError, KeyError) as error:
        raise _damaged(path) from error
    if type(marker.format) is not int or marker.format < 1 or not isinstance(marker.identity, str):
        raise _damaged(path)
    return marker


def _damaged(path: str) -> CorruptLogError:
    return CorruptLogError(
        "the log's marker cannot be read",
        where=path,
        advice='Restore the file from a copy; it must contain {"format": 1, "identity": "<uuid>", "created_us": <microseconds>}',
    )
