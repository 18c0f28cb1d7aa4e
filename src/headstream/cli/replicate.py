"""`headstream replicate`: the pipeline from Replicate's messages to Delta tables."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

import click

from headstream.cli.inspection import inspect
from headstream.cli.output import print_object, print_table, print_text
from headstream.cli.parameters import Checked, LocalPath, output_option
from headstream.cli.replicate_operation import parked, redrive, reload, schemas, status
from headstream.errors import InvalidInputError, ReplicateError
from headstream.model.quantities import parse_duration_us, parse_size_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from headstream.spark.replicate.config import ReplicateConfig
    from headstream.spark.replicate.pipeline import ReplicatePipeline
    from headstream.spark.replicate.summary import Summary

__all__ = ["replicate"]

_INTERRUPTED: Final = 130
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_TOPICS: Final = Checked("topic,...", lambda text: tuple(name.strip() for name in text.split(",")))
_PLACE: Final = LocalPath()
_TABLE_PLACE: Final = LocalPath(is_table=True)


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name.startswith("spark.") and equals):
        raise InvalidInputError(f"{text!r} is no setting of Spark", advice="Write it as in spark.driver.memory=4g")
    return name, value


_SETTING: Final = Checked("setting", _setting)
_DURATION: Final = Checked("duration", parse_duration_us)
_SIZE: Final = Checked("size", parse_size_bytes)


@click.group()
def replicate() -> None:
    """Qlik Replicate: run the pipeline into Delta tables, see how it stands, bring messages back, inspect messages.

    \b
    Examples:
      headstream replicate run --source file:///var/lib/cdc --topics cdc/data --metadata cdc/metadata \\
          --tables /data/tables --checkpoint /data/checkpoint --once
      headstream replicate status --checkpoint /data/checkpoint
      headstream replicate inspect message.bin
    """


for _command in (inspect, status, schemas, parked, redrive, reload):
    replicate.add_command(_command)


@replicate.command()
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A TOML file with all of this and more: tables, targets, keys, columns, policies. Options given here win over it.",
)
@click.option(
    "--source",
    "--url",
    "source",
    envvar="HEADSTREAM_URL",
    show_envvar=True,
    metavar="URL",
    help="The log that the messages are in, or kafka://host:9092.",
)
@click.option("--topics", type=_TOPICS, metavar="A,B", help="Topics with data messages.")
@click.option("--metadata", type=_TOPICS, default=(), metavar="C", help="Topics with metadata messages, if not among those.")
@click.option("--tables", type=_TABLE_PLACE, help="Where the Delta tables are.")
@click.option("--checkpoint", type=_PLACE, help="Where the pipeline's own state is.")
@click.option("--zone", type=_PLACE, help="The schema zone.  [default: CHECKPOINT/zone]")
@click.option(
    "--schema-wait",
    "schema_wait_us",
    type=_DURATION,
    default="60s",
    show_default=True,
    help="How long a message waits for its schema: 500ms, 60s, 5m.",
)
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
@click.option("--atomic", is_flag=True, help="Show a transaction's changes to a table all at once or not at all.")
@click.option(
    "--transaction-wait", "transaction_wait_us", type=_DURATION, help="How long its events may be missing.  [default: 5m]"
)
@click.option(
    "--on-incomplete-transaction",
    type=click.Choice(["wait", "apply", "fail"]),
    help="Then wait on with a warning, apply what there is, or stop.  [default: wait]",
)
@click.option("--change-tables", type=_TABLE_PLACE, help="Write every change as it came into a Delta table a target, in there.")
@click.option("--dead-letter-table", type=_TABLE_PLACE, help="Write the dead letter into a Delta table, too.")
@click.option("--metrics", type=LocalPath(directory=False), help="Keep metrics in this file (OpenMetrics).")
@click.option("--max-parked-count", type=click.IntRange(1), help="The most messages that may wait.  [default: 10 million]")
@click.option("--max-parked-bytes", type=_SIZE, help="The most bytes of them: 20GiB.  [default: 20GiB]")
@click.option("--max-parked-age", "max_parked_age_us", type=_DURATION, help="Warn of any that wait longer.  [default: 1d]")
@click.option("--max-dead-rate", type=click.FloatRange(0, 1), help="Stop when more than this share is given up.  [default: 0.1]")
@click.option("--take-over", is_flag=True, help="Go on with tables of another pipeline, whose checkpoint is gone.")
@click.option("--once", is_flag=True, help="End when everything that is there now is applied.")
@click.option("--max-messages-per-batch", type=click.IntRange(1), help="The most messages of one micro-batch.  [default: 200000]")
@click.option(
    "--max-bytes-per-batch", type=_SIZE, help="The most bytes of them: 500MiB.  [default: an eighth of Spark's driver memory]"
)
@click.option("--driver-memory", metavar="SIZE", help="Memory of Spark's driver: 4g.  [default: Spark's, 1g]")
@click.option("--conf", "spark", type=_SETTING, multiple=True, metavar="NAME=VALUE", help="A setting of Spark; may be repeated.")
@click.option(
    "--mask-order",
    type=click.Choice(["auto", "little", "big"]),
    default="auto",
    show_default=True,
    help="Byte order of column masks in Avro messages; auto: what the messages prove.",
)
@output_option
@click.pass_context
def run(context: click.Context, /, config_file: Path | None, output: str, **options: Any) -> None:
    """Turn Replicate's messages into Delta tables, one for each source table, at TABLES/<schema>/<table>.

    Run again with the same checkpoint, it goes on where it ended. Ctrl-C or SIGTERM ends it after the micro-batch that is
    being applied, and the summary is printed: with exit code 0, which is how a run without --once ends; with 130 where
    --once was to apply more. A second Ctrl-C ends it at once, which costs nothing either. Spark runs on this machine,
    or where SPARK_MASTER, --conf spark.master=... or [spark] of the file say.

    \b
    Example:
      headstream replicate run --source file:///var/lib/cdc --topics cdc/data --metadata cdc/metadata \\
          --tables /data/tables --checkpoint /data/checkpoint --once --output json
    """
    from headstream.spark.java import find_java
    from headstream.spark.replicate.inputs import check_topics

    config = _configure(context, config_file, options)
    find_java()
    check_topics(config)  # what can be known now need not wait until Spark has started
    summary, was_stopped = _run(config)
    _print(summary, output)
    if was_stopped and config.once:
        click.get_current_context().exit(_INTERRUPTED)


def _configure(context: click.Context, config_file: Path | None, options: dict[str, Any]) -> ReplicateConfig:
    """Return what the options say, on top of a file where there is one."""
    from headstream.spark.replicate.config import ReplicateConfig
    from headstream.spark.replicate.config_file import load_config
    from headstream.spark.replicate.table_settings import TableRules, TableSettings

    default = click.core.ParameterSource.DEFAULT
    given = {
        name: value
        for name, value in options.items()
        if value is not None and (config_file is None or context.get_parameter_source(name) is not default)
    }
    mask_order = given.pop("mask_order", None)
    spark = dict(given.pop("spark", ()))
    if "driver_memory" in given:
        spark["spark.driver.memory"] = given.pop("driver_memory")
    if config_file is None:
        for name in ("source", "topics", "tables", "checkpoint"):
            if name not in given:
                raise click.UsageError(f"Missing option '--{name}': give it, or a --config FILE", context)
        return ReplicateConfig(**given, spark=spark, rules=TableRules(defaults=TableSettings(mask_order=mask_order)))
    config = load_config(config_file, given)
    config = replace(config, spark={**config.spark, **spark})
    if mask_order is None:
        return config
    return replace(config, rules=replace(config.rules, defaults=replace(config.rules.defaults, mask_order=mask_order)))


def _run(config: ReplicateConfig) -> tuple[Summary, bool]:
    """Run a pipeline to its end, or until a signal; return what it has done, and whether a signal came."""
    from headstream.spark.replicate.pipeline import ReplicatePipeline

    _show_log()
    with _progress() as show, _kept_handlers():
        show("starting Spark")
        with _session(config.spark) as spark:
            pipeline = ReplicatePipeline(spark, config, on_progress=lambda summary: show(_describe(summary)))
            came = _stop_by_signals(pipeline)
            show("waiting for messages")
            try:
                return pipeline.run(), bool(came)
            except Exception as error:
                if not came:
                    raise
                raise ReplicateError(  # a signal to all processes of a group ends Spark's before they are done
                    "the run was ended in the middle of a micro-batch", advice="Run it again: it goes on where it was"
                ) from error


def _show_log() -> None:
    """Write what the pipeline logs, from INFO on, to standard error."""
    logger = logging.getLogger("headstream")
    if not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)


@contextmanager
def _session(settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """Yield a session, and end it; an error in the body is not hidden by a Spark that is gone already."""
    from headstream.spark import session, stop

    spark = session("headstream-replicate", config=settings)
    try:
        yield spark
    except BaseException:
        with suppress(Exception):
            stop(spark)
        raise
    stop(spark)


def _stop_by_signals(pipeline: ReplicatePipeline) -> list[int]:
    """Make the first Ctrl-C or SIGTERM end a pipeline in good order, and the second end the program at once.

    Spark puts a handler of its own in place when a session starts, so this comes after it.

    Returns:
        The signals that have come, a list that grows.
    """
    came: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        came.append(number)
        if len(came) > 1:
            raise KeyboardInterrupt
        pipeline.stop()

    for number in _SIGNALS:
        signal.signal(number, handle)
    return came


@contextmanager
def _kept_handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        yield
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
    tables, lags, failing = (document.pop(name) for name in ("tables", "lag_seconds", "failing"))
    counts = ("inserted", "updated", "deleted")
    print_table(
        ("table", *counts, "lag_seconds"),
        [[name, *(str(rows[count]) for count in counts), str(lags.get(name, "-"))] for name, rows in tables.items()],
    )
    if failing:
        print_text("")
        print_table(("failing_table", "reason"), [[name, reason] for name, reason in failing.items()])
    print_text("")
    print_object(document, form)
