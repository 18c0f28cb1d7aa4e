"""`headstream replicate inspect`: explains Replicate messages and their errors.

An input contains one message or several:

    one message     the bytes of a Kafka value, in Avro or JSON (a document can have any number of lines)
    one per line    messages in JSON, or any messages in lines of `headstream export`
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal, NamedTuple

import click

from headstream.cli.shared.lines import decode_document
from headstream.cli.shared.output import print_object, print_objects, print_table, print_text, write_json_list
from headstream.cli.shared.parameters import output_option
from headstream.core.codec.json_text import decode_json
from headstream.errors import DecodeError, HeadstreamError, InvalidInputError, ReplicateError
from headstream.replicate.schemas.explanation import Explainer

if TYPE_CHECKING:
    from collections.abc import Callable

    from headstream.replicate.codec import TableMetadata

_LINE_MEMBERS: Final = frozenset(("payload", "topic", "partition", "offset", "checksum"))
"""An object with at least two of these members is an export line; a Replicate message does not have these members."""
_COLUMNS: Final = ("ordinal", "name", "type", "length", "precision", "scale", "primary_key_position", "nullable", "table_type")
_PARKED: Final = frozenset(("columns", "lineage", "data", "before", "fault", "note", "envelope_headers", "where"))


class Sample(NamedTuple):
    """One message and its origin."""

    where: str
    value: bytes
    fault: HeadstreamError | None = None


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE|-", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option(
    "--zone",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A pipeline's schema store, to decode data messages.",
)
@click.option(
    "--mask-order",
    type=click.Choice(["little", "big"]),
    default="little",
    show_default=True,
    help="Byte order of column masks in Avro messages.",
)
@output_option
def inspect(files: tuple[str, ...], zone: Path | None, mask_order: Literal["little", "big"], output: str) -> None:
    """Explain the Replicate messages in each FILE, or on standard input: type, schema, table, columns and column masks.

    FILE contains the value of one Kafka message, or one message per line, in JSON or as written by export. Avro data messages
    are decoded with preceding metadata messages, or with --zone. Exit code 1 means that a message is invalid.

    \b
    Examples:
      headstream replicate inspect message.bin
      headstream replicate inspect metadata.json data.json --output json
      headstream export cdc/data | headstream replicate inspect - --zone /data/checkpoint/zone
    """
    explainer = Explainer(_schema_lookup(zone), mask_order)
    broken = []

    def explain() -> Iterator[dict[str, Any]]:
        for sample in _read_samples(files):
            if sample.fault is not None:
                explained = {"size_bytes": len(sample.value), "fault": str(sample.fault)}
            else:
                explained = explainer.explain(sample.value)
            if explained["fault"] is not None:
                broken.append(sample.where)
            yield {"where": sample.where, **explained}

    if output == "json":
        write_json_list(explain())
    elif output == "jsonl":
        print_objects(explain(), (), output)
    else:
        for explained in explain():
            _print_explained(explained)
    if broken:
        sys.stdout.flush()
        raise ReplicateError(f"{len(broken)} message{'s are' if len(broken) > 1 else ' is'} invalid", where=broken[0])


def _schema_lookup(directory: Path | None) -> Callable[[str], TableMetadata | None]:
    if directory is None:
        return lambda schema_id: None
    from headstream.replicate.schemas.schema_store import SchemaStore

    zone = SchemaStore(directory)

    def find(schema_id: str) -> TableMetadata | None:
        entry = zone.find(schema_id)
        return None if entry is None else entry.metadata

    return find


def _read_samples(files: tuple[str, ...]) -> Iterator[Sample]:
    for name in files:
        if name == "-":
            yield from _split("standard input", sys.stdin.buffer)
        else:
            with Path(name).open("rb") as source:
                yield from _split(name, source)


def _split(name: str, source: BinaryIO) -> Iterator[Sample]:
    """Return the messages of an input: its lines if the first line is a complete JSON object, else the entire input."""
    first = source.readline()
    number = 1
    while first.isspace():
        first, number = source.readline(), number + 1
    if not first.lstrip().startswith(b"{") or _read_object(first) is None:
        yield Sample(name, first + source.read())
        return
    line = first
    while line:
        if not line.isspace():
            yield _sample(f"{name}, line {number}", line)
        line, number = source.readline(), number + 1


def _read_object(line: bytes) -> dict[str, Any] | None:
    try:
        document = decode_json(line)
    except DecodeError:
        return None
    return document if isinstance(document, dict) else None


def _sample(where: str, line: bytes) -> Sample:
    """Return the message of a line: the payload if it is a line of export, otherwise the line itself."""
    document = _read_object(line)
    if document is None or len(_LINE_MEMBERS & document.keys()) < 2:
        return Sample(where, line)
    try:
        message = decode_document(document)
        if message.payload is None:
            raise InvalidInputError("the message has a null payload")
    except HeadstreamError as error:
        return Sample(where, line, error)
    if message.offset is not None:
        where = f"{where}: {message.topic} partition {message.partition} offset {message.offset}"
    return Sample(where, message.payload)


def _print_explained(explained: dict[str, Any]) -> None:
    print_text(explained["where"])
    columns, data, before = explained.get("columns"), explained.get("data"), explained.get("before")
    members = {name: value for name, value in explained.items() if name not in _PARKED and value is not None}
    for title in ("lineage", "envelope_headers"):
        members |= {f"{title} {name}": value for name, value in (explained.get(title) or {}).items()}
    members |= {name: explained[name] for name in ("note", "fault") if explained.get(name) is not None}
    print_object(members, "table")
    if columns:
        print_text("")
        print_objects(columns, _COLUMNS, "table")
    if data is not None:
        present = explained["present"]
        print_text("")
        print_table(
            ("column", "data", *(["before"] if before is not None else [])),
            [[name, _cell(name, data, present), *([_cell(name, before, None)] if before is not None else [])] for name in data],
        )
    print_text("")


def _cell(name: str, row: dict[str, Any], present: list[str] | None) -> str:
    """Return a column's value; a column that is missing from the message differs from null."""
    if name not in row or (present is not None and name not in present):
        return "(absent)"
    value = row[name]
    return "(null)" if value is None else str(value)
