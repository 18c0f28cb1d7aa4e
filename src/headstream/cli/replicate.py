"""`headstream replicate`: the pipeline from Replicate's messages to Delta tables."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

import click

from headstream.cli.inspection import inspect
from headstream.cli.output import print_object, print_table, print_text
from headstream.cli.parameters import Checked, output_option, parse_topics

if TYPE_CHECKING:
    from collections.abc import Callable

    from headstream.spark.replicate.pipeline import ReplicatePipeline
    from headstream.spark.replicate.summary import Summary

__all__ = ["replicate"]

_INTERRUPTED: Final = 130
_TOPICS: Final = Checked("topic,...", parse_topics)


@click.group()
def replicate() -> None:
    """Qlik Replicate: run the pipeline into Delta tables, inspect messages.

    \b
    Examples:
      headstream replicate run --source file:///var/lib/cdc --topics cdc/data --metadata cdc/metadata \\
          --tables /data/tables --checkpoint /data/checkpoint --once
      headstream replicate inspect message.bin
    """


replicate.add_command(inspect)


@replicate.command()
@click.option(
    "--source",
    "--url",
    "source",
    envvar="HEADSTREAM_URL",
    show_envvar=True,
    required=True,
    metavar="URL",
    help="The log that the messages are in.",
)
@click.option("--topics", type=_TOPICS, required=True, metavar="A,B", help="Topics with data messages.")
@click.option("--metadata", type=_TOPICS, default=(), metavar="C", help="Topics with metadata messages, if not among those.")
@click.option("--tables", type=click.Path(file_okay=False, path_type=Path), required=True, help="Where the Delta tables are.")
@click.option(
    "--checkpoint", type=click.Path(file_okay=False, path_type=Path), required=True, help="Where the pipeline's own state is."
)
@click.option("--zone", type=click.Path(file_okay=False, path_type=Path), help="The schema zone.  [default: CHECKPOINT/zone]")
@click.option("--schema-wait", default="60s", show_default=True, help="How long a message waits for its schema: 500ms, 60s, 5m.")
@click.option(
    "--delayed", default="replicate/delayed", show_default=True, metavar="TOPIC", help="Topic for those that waited so long."
)
@click.option(
    "--on-missing-schema",
    type=click.Choice(["delayed", "dead-letter", "fail"]),
    default="delayed",
    show_default=True,
    help="What becomes of them.",
)
@click.option("--once", is_flag=True, help="End when everything that is there now is applied.")
@click.option("--max-messages-per-batch", type=click.IntRange(1), help="The most messages of one micro-batch.")
@click.option(
    "--mask-order",
    type=click.Choice(["little", "big"]),
    default="little",
    show_default=True,
    help="Byte order of column masks in Avro messages.",
)
@output_option
def run(source: str, schema_wait: str, max_messages_per_batch: int | None, output: str, **options: Any) -> None:
    """Turn Replicate's messages into one Delta table a source table, at TABLES/<schema>/<table>.

    Run again with the same checkpoint, it goes on where it ended. Ctrl-C or SIGTERM ends it after the micro-batch that is
    being applied, and the summary is printed: with exit code 0, which is how a run without --once ends; with 130 where
    --once was to apply more. A second Ctrl-C ends it at once, which costs nothing either.

    \b
    Example:
      headstream replicate run --source file:///var/lib/cdc --topics cdc/data --metadata cdc/metadata \\
          --tables /data/tables --checkpoint /data/checkpoint --once --output json
    """
    from headstream.spark.java import find_java

    find_java()  # before the libraries, which take seconds to load
    from headstream.spark import session, stop
    from headstream.spark.replicate.config import ReplicateConfig, parse_duration_us
    from headstream.spark.replicate.pipeline import ReplicatePipeline

    if max_messages_per_batch is not None:
        options["max_messages_per_batch"] = max_messages_per_batch
    config = ReplicateConfig(source=source, schema_wait_us=parse_duration_us(schema_wait), **options)
    with _progress() as show:
        show("starting Spark")
        spark = session("headstream-replicate")
        try:
            pipeline = ReplicatePipeline(spark, config, on_progress=lambda summary: show(_describe(summary)))
            show("waiting for messages")
            with _stopped_by_signals(pipeline) as stopped:
                summary = pipeline.run()
        finally:
            stop(spark)
    _print(summary, output)
    if stopped and config.once:
        click.get_current_context().exit(_INTERRUPTED)


@contextmanager
def _stopped_by_signals(pipeline: ReplicatePipeline) -> Iterator[list[int]]:
    """Make the first Ctrl-C or SIGTERM end the pipeline in good order, and the second end it at once.

    Yields:
        The signals that came. Spark puts its own handler in place when a session starts, so this comes after it.
    """
    came: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        came.append(number)
        if len(came) > 1:
            raise KeyboardInterrupt
        pipeline.stop()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Yield what shows a line of progress on a terminal, and nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True, highlight=False).status("") as status:
        yield lambda text: status.update(Text(text))


def _describe(summary: Summary) -> str:
    waiting = f", {summary.parked + summary.delayed:,} waiting" if summary.parked + summary.delayed else ""
    dead = f", {summary.dead:,} dead" if summary.dead else ""
    rate = f", {summary.messages / summary.seconds:,.0f} a second" if summary.seconds else ""
    return f"{summary.messages:,} messages read, {summary.changes:,} changes applied{waiting}{dead}{rate}"


def _print(summary: Summary, form: str) -> None:
    document = summary.to_dict()
    if form != "table":
        print_object(document, form)
        return
    tables = document.pop("tables")
    print_table(
        ("table", "inserted", "updated", "deleted"),
        [[name, *(str(counts[key]) for key in ("inserted", "updated", "deleted"))] for name, counts in tables.items()],
    )
    print_text("")
    print_object(document, form)
