"""Place: how far an import has come in its file, kept beside it in FILE.progress.

    {"format": 1, "import": "<uuid>", "log": "<uuid>", "byte_position": 1048576, "lines": 812, "until": 1812,
     "digest": "<xxh3 of the bytes before the place>", "bad_lines": {"path": "/data/bad.jsonl", "size_bytes": 4096},
     "ends": {"shop/orders": {"1": 400, "2": 400}}}

It is written before a chunk is sent: every line before the place has been sent, those up to `until` may have been, and
what they left in the log lies behind the `ends` of its partitions. The file is replaced whole, so it is never found
half written.
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

__all__ = ["Place", "digest_before", "load_place", "place_path", "save_place"]

_FORMAT: Final = 1
_DIGESTED_BYTES: Final = 1 << 16
"""Of the bytes before the place: enough to know the file again, little to read."""


@dataclass(slots=True)
class Place:
    """How far an import has come.

    Args:
        import_id: What the ids of its messages are made of.
        log: The identity of the log it goes to.
        byte_position: Where its next line begins.
        lines: How many lines are before that.
        until: The last line that may have been sent; `lines` where nothing is in doubt.
        digest: Of the bytes before the place.
        bad_lines: Where bad lines are put, and how many bytes they had there; None where they stop the import.
        ends: Topic -> partition -> the offset its next message had then.
    """

    import_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    log: str | None = None
    byte_position: int = 0
    lines: int = 0
    until: int = 0
    digest: str = ""
    bad_lines: dict[str, Any] | None = None
    ends: dict[str, dict[str, int]] = field(default_factory=dict)


def place_path(file: Path) -> Path:
    """Return where the place in a file is kept."""
    return file.with_name(f"{file.name}.progress")


def load_place(file: Path) -> Place:
    """Return the place that an import of a file has reached, the beginning where there was none yet.

    Raises:
        InvalidInputError: there is something else in its progress file.
        StorageError: it cannot be read.
    """
    path = place_path(file)
    try:
        document = json.loads(path.read_bytes())
        if document.pop("format") != _FORMAT:
            raise ValueError("another format")
        document["import_id"] = document.pop("import")
        place = Place(**document)
        _check(place)
    except FileNotFoundError:
        return Place()
    except OSError as error:
        raise StorageError(f"cannot read the progress: {error.strerror}", where=str(path)) from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InvalidInputError(
            f"not the progress of an import: {error}", where=str(path), advice="Move it away to import from the beginning"
        ) from None
    return place


def save_place(file: Path, place: Place) -> None:
    """Keep the place that an import of a file has reached.

    Raises:
        StorageError: it cannot be written.
    """
    path = place_path(file)
    document = {"format": _FORMAT, **asdict(place)}
    document["import"] = document.pop("import_id")
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        fresh.write_text(json.dumps(document, ensure_ascii=False) + "\n", encoding="utf-8")
        fresh.replace(path)
    except OSError as error:
        raise StorageError(
            f"cannot keep the progress: {error.strerror}", where=str(path), advice="An import keeps it beside its file"
        ) from error


def digest_before(file: Path, byte_position: int) -> str:
    """Return a digest of the bytes of a file before a place.

    Raises:
        StorageError: the file cannot be read.
    """
    begin = max(0, byte_position - _DIGESTED_BYTES)
    try:
        with file.open("rb") as source:
            source.seek(begin)
            return xxhash.xxh3_128_hexdigest(source.read(byte_position - begin))
    except OSError as error:
        raise StorageError(f"cannot read the file: {error.strerror}", where=str(file)) from error


def _check(place: Place) -> None:
    numbers: list[Any] = [place.byte_position, place.lines, place.until]
    numbers += [number for ends in place.ends.values() for pair in ends.items() for number in (int(pair[0]), pair[1])]
    if place.bad_lines is not None:
        numbers.append(place.bad_lines["size_bytes"])
        Path(place.bad_lines["path"])
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise ValueError("a number is none")
