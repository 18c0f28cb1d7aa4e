"""`headstream convert`: converts a file of messages to another dialect, and reports values that would be lost.

Input and output are each the bytes of a dialect, or `lines`: one JSON object per line, as `export` writes and `import` reads.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import click

from headstream.cli.inspecting.recognition import recognize
from headstream.cli.shared.lines import decode_line, encode_line
from headstream.cli.shared.output import print_objects
from headstream.cli.shared.parameters import LocalPath, output_option
from headstream.core.codec.conversion import DIALECTS, POLICIES, convert_all, fit_message, plan_conversion, read_messages
from headstream.core.model.message import Message
from headstream.errors import HeadstreamError, InvalidInputError, InvalidOptionError

_LINES: Final = "lines"
_READ: Final = (*(name for name, dialect in DIALECTS.items() if dialect.read is not None), _LINES)
_COLUMNS: Final = ("message", "part", "loss", "finding", "accepted_by")


def _read_policies(ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, ...]:
    policies = tuple(name.strip() for name in value.split(","))
    for policy in policies:
        if policy not in POLICIES:
            raise click.BadParameter(f"{policy!r} is not one of {', '.join(POLICIES)}", ctx, param)
    return policies


@click.command("convert")
@click.argument("file", metavar="FILE|-", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--from", "source", type=click.Choice(_READ), help="The dialect of FILE; detected by default.")
@click.option("--to", required=True, type=click.Choice(_READ), help="The dialect to convert to.")
@click.option(
    "--on-loss",
    default="error",
    show_default=True,
    callback=_read_policies,
    metavar="POLICY,...",
    help="Actions for values that the target dialect cannot represent: error, drop, widen, text; "
    "the first applicable action is used.",
)
@click.option("--out", type=LocalPath(directory=False), help="The output file; standard output by default.")
@click.option("--report", is_flag=True, help="Print the values that would be lost, and write nothing.")
@output_option
def convert_(
    file: str, source: str | None, to: str, on_loss: tuple[Any, ...], out: Path | None, report: bool, output: str
) -> None:
    """Convert the messages of FILE, or of standard input, to another dialect.

    No value is lost silently: if the other dialect cannot represent a value, the command fails with an error that names the
    value, unless --on-loss accepts the loss. --report lists all such values in advance, in the format of --output.

    \b
    Examples:
      headstream convert messages.bin --to kip82 --report
      headstream convert messages.bin --from binary --to json --on-loss drop --out messages.json
      headstream export shop/orders | headstream convert - --from lines --to kip82 --on-loss text > orders.kip82
    """
    data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    if source is None:
        source = _recognize(data)
    messages = list(_read_lines(data)) if source == _LINES else read_messages(data, dialect=source)
    if report:
        print_objects(_report(messages, to), _COLUMNS, output)
        return
    written = _write(messages, to, on_loss)
    if out is None:
        sys.stdout.flush()
        sys.stdout.buffer.write(written)
        sys.stdout.buffer.flush()
    else:
        out.write_bytes(written)


def _recognize(data: bytes) -> str:
    found = recognize(data, 0)
    name = {"binary-sent": "binary"}.get(found.dialect, found.dialect)
    if name not in _READ:
        raise InvalidOptionError(
            f"the format of the input is {name}", where="--from", advice=f"Specify one of {', '.join(_READ)}"
        )
    return name


def _read_lines(data: bytes) -> Iterator[Message]:
    for number, line in enumerate(data.splitlines(), 1):
        if line.strip():
            try:
                yield decode_line(line)
            except HeadstreamError as error:
                error.where = f"line {number}" if error.where is None else f"line {number}, {error.where}"
                raise


def _report(messages: Sequence[Message], to: str) -> Iterator[dict[str, Any]]:
    if to == _LINES:
        return
    for number, message in enumerate(messages, 1):
        for finding in plan_conversion(message, to=to):
            yield {
                "message": number,
                "part": finding.part,
                "loss": finding.is_loss,
                "finding": finding.reason,
                "accepted_by": list(finding.remedies),
            }


def _write(messages: Sequence[Message], to: str, on_loss: tuple[Any, ...]) -> bytes:
    if to == _LINES:
        return "".join(f"{encode_line(message)}\n" for message in messages).encode()
    for number, message in enumerate(messages, 1):
        try:
            fit_message(message, to=to, on_loss=on_loss)
        except InvalidInputError as error:
            error.where = f"message {number}" if error.where is None else f"message {number}, {error.where}"
            raise
    return bytes(convert_all(messages, to=to, on_loss=on_loss))
