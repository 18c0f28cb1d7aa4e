"""ImportProgress: the progress of importing a file, saved next to the file in FILE.progress.

    {"format": 1, "import": "<uuid>", "log": "<uuid>", "byte_position": 1048576, "lines": 812, "until": 1812,
     "digest": "<xxh3 of the bytes before the position>", "bad_lines": {"path": "/data/bad.jsonl", "size_bytes": 4096},
     "ends": {"shop/orders": {"1": 400, "2": 400}}}

The progress is saved before a chunk is sent. Every line before byte_position has been sent. The lines from there up to `until`
may have been sent; their messages are at or after the `ends` of their partitions. FILE.progress is replaced atomically.
"""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import xxhash

from headstream.errors import InvalidInputError, StorageError

_FORMAT: Final = 1
_DIGESTED_BYTES: Final = 1 << 16
"""Number of bytes before the position that are hashed: enough to recognize the file, and fast to read."""


@dataclass(slots=True)
class ImportProgress:
    """The progress of an import.

    Args:
        import_id: The import's id, from which message ids are derived.
        log: The identity of the target log.
        byte_position: Position of the next line.
        lines: Number of lines before the position.
        until: Number of the last line that may have been sent; equals `lines` if the outcome of every line is known.
        digest: Digest of the bytes before the position.
        bad_lines: The file of bad lines and its size in bytes; None if a bad line stops the import.
        ends: Topic -> partition -> end offset of the partition when the progress was saved.
    """

    import_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    log: str | None = None
    byte_position: int = 0
    lines: int = 0
    until: int = 0
    digest: str = ""
    bad_lines: dict[str, Any] | None = None
    ends: dict[str, dict[str, int]] = field(default_factory=dict)


def progress_path(file: Path) -> Path:
    """Return the path of a file's progress file."""
    return file.with_name(f"{file.name}.progress")


def load_progress(file: Path) -> ImportProgress:
    """Return an import's saved progress, or its initial progress; InvalidInputError if the progress file is invalid."""
    path = progress_path(file)
    try:
        document = json.loads(path.read_bytes())
        if document.pop("format") != _FORMAT:
            raise ValueError("unknown format")
        document["import_id"] = document.pop("import")
        progress = ImportProgress(**document)
        _check(progress)
    except FileNotFoundError:
        return ImportProgress()
    except OSError as error:
        raise StorageError(f"cannot read the progress: {error.strerror}", where=str(path)) from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InvalidInputError(
            f"the file does not contain the progress of an import: {error}",
            where=str(path),
            advice="Move the file to another directory to import from the beginning",
        ) from None
    return progress


def save_progress(file: Path, progress: ImportProgress) -> None:
    """Save the progress of a file's import; StorageError if it cannot be written."""
    path = progress_path(file)
    document = {"format": _FORMAT, **asdict(progress)}
    document["import"] = document.pop("import_id")
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        fresh.write_text(json.dumps(document, ensure_ascii=False) + "\n", encoding="utf-8")
        fresh.replace(path)
    except OSError as error:
        raise StorageError(
            f"cannot save the progress: {error.strerror}", where=str(path), advice="The directory of FILE must be writable"
        ) from error


def digest_before(file: Path, byte_position: int) -> str:
    """Return a digest of a file's bytes before a position; StorageError if the file cannot be read."""
    begin = max(0, byte_position - _DIGESTED_BYTES)
    try:
        with file.open("rb") as source:
            source.seek(begin)
            return xxhash.xxh3_128_hexdigest(source.read(byte_position - begin))
    except OSError as error:
        raise StorageError(f"cannot read the file: {error.strerror}", where=str(file)) from error


def _check(progress: ImportProgress) -> None:
    numbers: list[Any] = [progress.byte_position, progress.lines, progress.until]
    numbers += [number for ends in progress.ends.values() for pair in ends.items() for number in (int(pair[0]), pair[1])]
    if progress.bad_lines is not None:
        numbers.append(progress.bad_lines["size_bytes"])
        Path(progress.bad_lines["path"])
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise ValueError("a number is invalid")
