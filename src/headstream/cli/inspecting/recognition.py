"""Detects the format of bytes.

The first bytes identify an index or a Replicate message. For other input, every walk function is tried. A walk that reads the
entire input with proof (checksums or magic values) ranks highest. All other walks rank by the amount of proof, then by the number
of bytes read. Without proof, a complete walk ranks above a failed walk that read equally many bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from headstream.cli.inspecting.fields import FieldReader, Walk, WalkEnd
from headstream.cli.inspecting.files import INDEX_MAGIC, walk_block, walk_index, walk_json, walk_lines
from headstream.cli.inspecting.iggy import (
    walk_first,
    walk_later_56,
    walk_later_64,
    walk_request,
    walk_response,
    walk_sent,
    walk_stored,
)
from headstream.cli.inspecting.kafka import walk_batches, walk_messages
from headstream.core.codec.kip82 import LENIENT
from headstream.errors import DecodeError
from headstream.replicate.codec.envelope import MAGIC
from headstream.replicate.schemas.explanation import Explainer


class Format(NamedTuple):
    """One known format; `order` is its byte order, `<` or `>`."""

    title: str
    walk: Walk
    order: str = "<"


class Recognized(NamedTuple):
    """The detected format of bytes.

    Args:
        dialect: One of FORMATS, or `unknown`.
        fault: Where and why the bytes are invalid, or None.
    """

    dialect: str
    title: str
    reader: FieldReader
    fault: DecodeError | None


def _walk_replicate(reader: FieldReader) -> None:
    explained = Explainer(lambda schema_id: None).explain(reader.data)
    if explained["type"] is None:
        raise DecodeError(explained["fault"] or "not a Replicate message", 0)
    reader.evidence += 2
    for name, value in explained.items():
        if value is not None and name not in ("note", "fault", "size_bytes"):
            reader.note(0, len(reader.data), name, value)
    if explained["note"]:
        reader.notes.append(explained["note"])
    reader.skip_to(len(reader.data))
    if explained["fault"]:
        raise DecodeError(explained["fault"], 0)


FORMATS: Final[Mapping[str, Format]] = {
    "index": Format("the index of a Headstream segment", walk_index),
    "replicate": Format("a Qlik Replicate message", _walk_replicate),
    "kip82": Format("KIP-82 messages, or Kafka messages of magic 0 or 1", walk_messages, ">"),
    "kafka": Format("Kafka record batches (magic 2)", walk_batches, ">"),
    "binary": Format("Iggy messages with state and checksum, as in Headstream segments", walk_stored),
    "iggy-response": Format("an Iggy server's response to a poll", walk_response),
    "iggy-request": Format("an Iggy client's request to send messages", walk_request),
    "iggy-56": Format("messages of Iggy servers 0.5 and 0.6 (header of 56 bytes)", walk_later_56),
    "iggy-64": Format("messages of Iggy server 0.7 (header of 64 bytes)", walk_later_64),
    "json": Format("Iggy's JSON transport", walk_json),
    "lines": Format("lines of headstream export", walk_lines),
    "binary-first": Format("Iggy messages without state", walk_first),
    "binary-sent": Format("Iggy messages as sent by a client", walk_sent),
    "headers": Format("a header block of Iggy's binary transport", walk_block()),
    "kip82-headers": Format("a header block of KIP-82", walk_block(LENIENT), ">"),
}
"""Name -> format; of two formats that fit equally well, the first is chosen."""

_BY_BEGINNING: Final = ((INDEX_MAGIC, "index"), (MAGIC, "replicate"))
_PROBED_BYTES: Final = 1 << 20
"""Number of bytes used for detection; then the entire input is read in the detected format."""


def read_as(name: str, data: bytes, limit: int = 1000) -> Recognized:
    """Read bytes in one of FORMATS; record the fields of the first `limit` messages."""
    found = FORMATS[name]
    end = WalkEnd.of(found.walk, FieldReader(data, 0, found.order, limit))
    return Recognized(name, found.title, end.reader, end.fault)


def recognize(data: bytes, limit: int = 1000) -> Recognized:
    """Detect the format of bytes and read them; record the fields of the first `limit` messages."""
    for beginning, name in _BY_BEGINNING:
        if data.startswith(beginning):
            return read_as(name, data, limit)
    ranks = {name: _rank(read_as(name, data[:_PROBED_BYTES], 0), len(data) > _PROBED_BYTES) for name in FORMATS}
    best = max(ranks, key=lambda name: ranks[name])  # the first of equal ranks
    found = read_as(best, data, limit)
    if found.fault is None or found.reader.evidence:
        return found
    unknown = FieldReader(data)
    if data:
        unknown.notes.append(f"the nearest format is {found.title}, which does not match: {found.fault}; --as {best} shows how")
    return Recognized("unknown", "none of the known formats", unknown, DecodeError("the bytes match no known format", 0))


def _rank(tried: Recognized, is_cut: bool) -> tuple[bool, int, int]:
    """Return a format's rank: whether all bytes were read with proof, the amount of proof, and the number of bytes read."""
    is_whole = tried.fault is None or (is_cut and tried.reader.evidence > 0)
    proof = tried.reader.evidence
    return (is_whole and proof > 0, proof, tried.reader.at) if not is_whole or proof else (False, 0, tried.reader.at + 1)
