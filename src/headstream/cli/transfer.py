"""`headstream import` and `export`: read messages from files and write messages to files, one JSON object per line."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from headstream.cli.shared.filtering import FilterInput, choice_options
from headstream.cli.shared.message_view import MessageForm, is_before, print_message_lines
from headstream.cli.shared.output import print_object
from headstream.cli.shared.parameters import (
    FORMS,
    PARTITION,
    Checked,
    LocalPath,
    open_log,
    output_option,
    start_parameter,
    topic_argument,
    until_option,
    url_option,
)
from headstream.core.model.identifiers import TopicName
from headstream.core.model.message import ReceivedMessage
from headstream.core.model.polling import PollingKind, PollingStrategy
from headstream.core.model.topology import MAX_PARTITIONS, Limits
from headstream.errors import InvalidInputError

if TYPE_CHECKING:
    from headstream.cli.importing.importer import ImportOptions
    from headstream.client.arguments import ConsumerOptions
    from headstream.client.client import Client
    from headstream.core.model.topology import Partition


@click.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
@click.option("--topic", type=Checked("topic", lambda text: str(TopicName.parse(text))), help="Topic for lines without a topic.")
@click.option("--bad-lines", type=LocalPath(directory=False), metavar="FILE", help="Write bad lines to FILE and continue.")
@click.option(
    "--partitions",
    type=click.IntRange(1, MAX_PARTITIONS),
    default=1,
    show_default=True,
    help="Number of partitions of created topics, unless a line names a higher partition.",
)
@click.option(
    "--limits",
    type=click.Choice(["auto", *(limits.value for limits in Limits)]),
    default="auto",
    show_default=True,
    help="Limits of created topics; auto: wide if the messages of a topic require it, otherwise iggy.",
)
@url_option
@output_option
def import_(file: Path, topic: str | None, bad_lines: Path | None, partitions: int, limits: str, url: str, output: str) -> None:
    """Send the messages in FILE, one JSON object per line as written by export; missing topics are created.

    The progress is saved in FILE.progress. If the command is interrupted, run it again: it continues and sends no message twice.
    If FILE has grown, repeating the command imports the new lines. With -, standard input is first read completely into a
    temporary file. Its progress is not saved, so repeating the command sends all messages again.

    A bad line stops the import with exit code 1 and an error that names the line; --bad-lines collects such lines instead.

    A line's timestamp_us becomes the header hs.timestamp. States other than available are set after each chunk of up to 5000
    lines. A line is bad if its checksum does not match its payload. A line's offset is ignored.

    \b
    Examples:
      headstream import orders.jsonl
      headstream import orders.jsonl --bad-lines bad.jsonl --output json
      echo '{"topic": "shop/orders", "payload": "aGVsbG8="}' | headstream import -
    """
    from headstream.cli.importing.importer import Importer, ImportOptions

    options = ImportOptions(
        topic=topic, bad_lines=bad_lines, partitions=partitions, limits=None if limits == "auto" else Limits(limits)
    )
    with open_log(url) as log, ExitStack() as stack:
        source = _spool_input(stack) if str(file) == "-" else file
        options = _with_progress(options, source, stack)
        try:
            done = Importer(log, source, options).run()
        except InvalidInputError as error:
            if source is file:
                raise
            raise InvalidInputError(error.what, where="standard input", advice=_AGAIN) from None
    summary: dict[str, Any] = {"file": str(file), "lines": done.lines, "sent": done.sent, "found": done.found, "bad": done.bad}
    print_object({**summary, "created": done.created}, output)


@click.command()
@topic_argument
@click.option("--partition", "partitions", type=PARTITION, multiple=True, help="Partition, from 1; repeatable. [default: all]")
@click.option(
    "--from",
    "start",
    type=start_parameter("first"),
    default="first",
    show_default=True,
    help="Where to start in each partition: an offset, a time, or first (oldest message).",
)
@until_option
@click.option("--file", type=LocalPath(directory=False), help="The output file, instead of standard output.")
@choice_options
@url_option
@click.option("--output", type=click.Choice(FORMS), default="jsonl", show_default=True, help="Output format; import reads jsonl.")
def export(
    topic: str,
    partitions: tuple[int, ...],
    start: PollingStrategy,
    until: PollingStrategy | None,
    file: Path | None,
    chosen: FilterInput,
    url: str,
    output: str,
) -> None:
    """Write the existing messages of TOPIC, one JSON object per line, partition by partition.

    \b
    Examples:
      headstream export shop/orders > orders.jsonl
      headstream export shop/orders --from 2026-01-01T00:00:00Z --until 2026-02-01T00:00:00Z --file january.jsonl
      headstream export shop/orders --where "tenant = 'acme'" --file acme.jsonl
      headstream export shop/orders --states all | jq -r .payload | base64 -d
    """
    with ExitStack() as stack:
        log = stack.enter_context(open_log(url))
        if chosen.explain(log, output, topic):
            return
        places = log.topic(topic).partitions  # before the file is created
        if file is not None:
            stack.enter_context(redirect_stdout(stack.enter_context(file.open("w", encoding="utf-8"))))
        ends = {place.number: place.end_offset for place in places}
        options: ConsumerOptions = {
            "states": chosen.states,
            "where": chosen.where,
            "on_filter_error": chosen.on_error,
            "timeout_ms": 0,
        }
        messages = _read_all(log, topic, ends, partitions, start, until, options)
        if sys.stderr.isatty() and not sys.stdout.isatty():
            counted = [place for place in places if not partitions or place.number in partitions]
            messages = _with_count(messages, counted, stack)
        print_message_lines(messages, MessageForm(output))


def _read_all(
    log: Client,
    topic: str,
    ends: dict[int, int],
    partitions: tuple[int, ...],
    start: PollingStrategy,
    until: PollingStrategy | None,
    options: ConsumerOptions,
) -> Iterator[ReceivedMessage]:
    """Yield a topic's messages up to the current end of each partition, without later messages."""
    for number in sorted(set(partitions)) or ends:
        end = ends.get(number)
        if start.kind is PollingKind.OFFSET and end is not None and start.value >= end:
            continue
        wanted: ConsumerOptions = {**options, "partitions": [number], "start": start}
        with log.consumer(topic, **wanted) as consumer:
            for message in consumer:
                if (end is not None and message.offset >= end) or (until is not None and not is_before(message, until)):
                    break
                yield message


def _with_count(messages: Iterator[ReceivedMessage], places: Iterable[Partition], stack: ExitStack) -> Iterator[ReceivedMessage]:
    """Yield the messages and show the progress on a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    begins = {place.number: place.first_offset for place in places}
    total = sum(place.end_offset - place.first_offset for place in places)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    console = Console(stderr=True, highlight=False)
    progress = stack.enter_context(Progress(*columns, console=console, transient=True, redirect_stdout=False))
    task = progress.add_task("exporting", total=total)
    for message in messages:
        number, next_offset = message.partition, message.offset + 1
        progress.advance(task, next_offset - begins[number])  # skipped messages are counted too
        begins[number] = next_offset
        yield message


_AGAIN: Final = "Earlier lines were imported: correct this line and import the remaining lines, or set --bad-lines FILE"
"""Advice for a bad line of standard input, whose position is not stored."""


def _spool_input(stack: ExitStack) -> Path:
    """Copy standard input to a temporary file, because an import reads its lines more than once."""
    file = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headstream-import-"))) / "standard-input"
    with file.open("wb") as spool:
        shutil.copyfileobj(sys.stdin.buffer, spool)
    return file


def _with_progress(options: ImportOptions, file: Path, stack: ExitStack) -> ImportOptions:
    """Return the options with callbacks that show progress on a terminal and report bad lines."""
    from dataclasses import replace

    if not sys.stderr.isatty():
        return replace(options, on_bad_line=lambda reason: click.echo(reason, err=True))
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.text import Text

    console = Console(stderr=True, highlight=False)
    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()
    progress = stack.enter_context(Progress(*columns, console=console, transient=True))
    task = progress.add_task("importing", total=file.stat().st_size)
    return replace(
        options,
        on_progress=lambda byte_position: progress.update(task, completed=byte_position),
        on_bad_line=lambda reason: console.print(Text(reason)),
    )
