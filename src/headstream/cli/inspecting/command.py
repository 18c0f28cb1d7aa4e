"""The command `headstream inspect`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import click

from headstream.cli.inspecting.recognition import FORMATS, Recognized, read_as, recognize
from headstream.cli.shared.output import print_object, print_objects, print_table, print_text, write_json_list
from headstream.cli.shared.parameters import output_option
from headstream.errors import DecodeError

_COLUMNS: Final = ("byte", "size", "field", "value")


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE|-", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--as", "name", type=click.Choice(list(FORMATS)), help="Format of the file; detected by default.")
@click.option(
    "--limit", type=click.IntRange(1), default=20, show_default=True, help="Number of messages whose fields are printed."
)
@output_option
def inspect(files: tuple[str, ...], name: str | None, limit: int, output: str) -> None:
    """Explain the bytes of each FILE, or of standard input: the format, every field with its position, and errors.

    Known formats: Iggy messages of several versions (stored, as sent, in requests and responses), KIP-82, Kafka record
    batches, Qlik Replicate, Iggy JSON, lines of export, and the files of a Headstream log. To explain several messages of
    one Replicate task together, use `headstream replicate inspect`. Exit code 1 means that some bytes are invalid.

    \b
    Examples:
      headstream inspect /var/lib/shop/streams/1/1/1/00000000000000000000.log
      headstream inspect dump.bin --as kip82 --output json
    """
    explained = []
    for file in files:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        found = recognize(data, limit) if name is None else read_as(name, data, limit)
        explained.append(("standard input" if file == "-" else file, len(data), found))
    if output == "table":
        for where, size, found in explained:
            _print_found(where, size, found)
    elif output == "json":
        write_json_list(_describe(*one) for one in explained)
    else:
        print_objects((_describe(*one) for one in explained), (), output)
    broken = [(where, found.fault) for where, _, found in explained if found.fault is not None]
    if broken:
        sys.stdout.flush()
        where, fault = broken[0]
        raise DecodeError(
            fault.what,
            fault.at,
            fault.need,
            fault.have,
            where=where if fault.where is None else f"{where}, {fault.where}",
            advice=fault.advice,
        )


def _describe(where: str, size: int, found: Recognized) -> dict[str, Any]:
    fault = found.fault
    return {
        "where": where,
        "size_bytes": size,
        "format": found.dialect,
        "title": found.title,
        "count": found.reader.count,
        "fields": [field._asdict() for field in found.reader.fields],
        "notes": found.reader.notes,
        "fault": None if fault is None else {"text": str(fault), "at": fault.at, "need": fault.need, "have": fault.have},
    }


def _print_found(where: str, size: int, found: Recognized) -> None:
    reader = found.reader
    members: dict[str, Any] = {"format": found.dialect, "which is": found.title, "size_bytes": size}
    if reader.count:
        members["count"] = reader.count
    print_text(where)
    print_object(members, "table")
    if reader.fields:
        print_text("")
        print_table(_COLUMNS, [[str(field.at), str(field.size_bytes), field.name, field.value] for field in reader.fields])
    for note in reader.notes[:20]:
        print_text(f"note: {note}")
    if found.fault is not None:
        print_text(f"broken: {found.fault}")
    print_text("")
