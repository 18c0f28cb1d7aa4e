"""`headstream replicate`: the pipeline from messages of Qlik Replicate or Debezium to Delta tables."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from headstream.cli.replicate.compare import compare
from headstream.cli.replicate.iceberg import iceberg
from headstream.cli.replicate.inspection import inspect
from headstream.cli.replicate.operation import parked, redrive, reload, remove_deletion_vectors, schemas, status
from headstream.cli.replicate.session import SPARK_SETTING, open_session, show_progress
from headstream.cli.shared.checkpoints import config_option
from headstream.cli.shared.output import print_object, print_table, print_text
from headstream.cli.shared.parameters import DURATION, Checked, LocalPath, StorablePlace, output_option
from headstream.cli.shared.signals import restored_handlers, stop_by_signals
from headstream.core.model.quantities import parse_size_bytes
from headstream.errors import ReplicateError

if TYPE_CHECKING:
    from headstream.replicate.run.summary import Summary
    from headstream.replicate.settings.config import ReplicateConfig

_INTERRUPTED: Final = 130
_TOPICS: Final = Checked("topic,...", lambda text: tuple(name.strip() for name in text.split(",")))
_TABLE_PLACE: Final = StorablePlace(is_table=True)
_SIZE: Final = Checked("size", parse_size_bytes)


@click.group()
def replicate() -> None:
    """Apply changes from Qlik Replicate or Debezium to Delta tables; show a pipeline's status, redrive and inspect messages.

    \b
    Examples:
      headstream replicate run --source file:///var/lib/cdc --topics cdc/data --metadata cdc/metadata \\
          --tables /data/tables --checkpoint /data/checkpoint --once
      headstream replicate run --format debezium --source kafka://kafka:9092 --topics shop.public.orders \\
          --tables /data/tables --checkpoint /data/checkpoint
      headstream replicate status --checkpoint /data/checkpoint
      headstream replicate inspect message.bin
    """


for _command in (inspect, status, schemas, parked, redrive, reload, compare, remove_deletion_vectors, iceberg):
    replicate.add_command(_command)


@replicate.command()
@config_option("A TOML file with these and other settings: tables, targets, keys, columns, policies. Options take precedence.")
@click.option(
    "--source",
    "--url",
    "source",
    envvar="HEADSTREAM_URL",
    show_envvar=True,
    metavar="URL",
    help="URL of the log with the messages, or of a Kafka cluster: kafka://host:9092.",
)
@click.option("--topics", type=_TOPICS, metavar="A,B", help="Topics with data messages.")
@click.option("--metadata", type=_TOPICS, default=(), metavar="C", help="Topics with metadata messages, if not the data topics.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["replicate", "debezium"]),
    default="replicate",
    show_default=True,
    help="Format of the messages in all topics; to set it per topic, use [debezium] in the file.",
)
@click.option(
    "--tables",
    type=_TABLE_PLACE,
    help="Directory or URI (s3://, abfss://, gs://, hdfs://) of the Delta tables. Settings for a URI are read from [storage].",
)
@click.option("--checkpoint", type=StorablePlace(), help="Directory or URI of the pipeline's state.")
@click.option("--checkpoint-from", type=LocalPath(exists=True), help="Move this directory's checkpoint to the URI --checkpoint.")
@click.option("--zone", type=StorablePlace(), help="Directory or URI of the schema store.  [default: CHECKPOINT/zone]")
@click.option("--schemas", type=StorablePlace(), help="Directory or URI of schemas that do not arrive in messages.")
@click.option(
    "--schema-wait",
    "schema_wait_us",
    type=DURATION,
    default="60s",
    show_default=True,
    help="Maximum time that a message waits for its schema, for example 500ms, 60s or 5m.",
)
@click.option(
    "--delayed",
    default="replicate/delayed",
    show_default=True,
    metavar="TOPIC",
    help="Topic in the checkpoint for messages that wait longer than --schema-wait; kafka://host:9092/topic also copies the "
    "messages to that Kafka topic.",
)
@click.option("--dead-letter", metavar="URL", help="Copy dead letters to this topic: kafka://host:9092/topic.")
@click.option(
    "--on-missing-schema",
    type=click.Choice(["delayed", "dead-letter", "fail"]),
    default="delayed",
    show_default=True,
    help="Action for messages that wait longer than --schema-wait.",
)
@click.option("--atomic", is_flag=True, help="Apply a transaction's changes to a table all at once or not at all.")
@click.option(
    "--transaction-wait",
    "transaction_wait_us",
    type=DURATION,
    help="Maximum time to wait for missing events of a transaction.  [default: 5m]",
)
@click.option(
    "--on-incomplete-transaction",
    type=click.Choice(["wait", "apply", "fail"]),
    help="After --transaction-wait: keep waiting with a warning, apply the events that arrived, or stop.  [default: wait]",
)
@click.option(
    "--change-tables", type=_TABLE_PLACE, help="Directory or URI of the change tables (one per target, every change as received)."
)
@click.option("--dead-letter-table", type=_TABLE_PLACE, help="Also write dead letters to this Delta table.")
@click.option("--metrics", type=StorablePlace(directory=False), help="Write metrics to this file or URI (OpenMetrics).")
@click.option("--metrics-otlp", is_flag=True, help="Send metrics to the OpenTelemetry collector at OTEL_EXPORTER_OTLP_ENDPOINT.")
@click.option(
    "--tracing", is_flag=True, help="Record OpenTelemetry spans of micro-batches and merges, linked to the message spans."
)
@click.option("--max-parked-count", type=click.IntRange(1), help="Maximum number of waiting messages.  [default: 10 million]")
@click.option("--max-parked-bytes", type=_SIZE, help="Maximum total size of waiting messages.  [default: 20GiB]")
@click.option(
    "--max-parked-age", "max_parked_age_us", type=DURATION, help="Waiting time after which a warning is logged.  [default: 1d]"
)
@click.option(
    "--max-dead-rate",
    type=click.FloatRange(0, 1),
    help="Stop a table if the share of its messages that become dead letters exceeds this number (0 to 1).  [default: 0.1]",
)
@click.option(
    "--catalog",
    metavar="NAME",
    help="Register each table in Spark's catalog under a name such as '{schema}.{table}' or 'lake.{schema}.{table}'.",
)
@click.option("--take-over", is_flag=True, help="Continue with tables of another pipeline whose checkpoint is lost.")
@click.option("--accept-recreated", is_flag=True, help="Read recreated topics from their beginning.")
@click.option("--accept-loss", is_flag=True, help="Continue without messages that were deleted before they were read.")
@click.option("--once", is_flag=True, help="End when all existing messages are applied.")
@click.option(
    "--trigger-every",
    "trigger_every_us",
    type=DURATION,
    help="Minimum time between the starts of micro-batches, for example 10s.  [default: none]",
)
@click.option(
    "--max-messages-per-batch", type=click.IntRange(1), help="Maximum number of messages per micro-batch.  [default: 200000]"
)
@click.option(
    "--max-bytes-per-batch",
    type=_SIZE,
    help="Maximum size of a micro-batch, for example 64MB.  [default: an eighth of Spark's driver memory]",
)
@click.option("--driver-memory", metavar="SIZE", help="Memory of Spark's driver, for example 4g.  [default: 1g, Spark's default]")
@click.option(
    "--conf",
    "spark",
    type=SPARK_SETTING,
    multiple=True,
    metavar="NAME=VALUE",
    help="Spark setting, NAME=VALUE; repeatable.",
)
@click.option(
    "--mask-order",
    type=click.Choice(["auto", "little", "big"]),
    default="auto",
    show_default=True,
    help="Byte order of column masks in Avro messages; auto: detected from the messages.",
)
@click.option(
    "--datetimes",
    type=click.Choice(["utc", "ntz", "text"]),
    default="utc",
    show_default=True,
    help="Type of DATETIME columns: TIMESTAMP, TIMESTAMP_NTZ, or a STRING that keeps times finer than a microsecond.",
)
@click.option(
    "--merge-strategy",
    type=click.Choice(["auto", "rewrite", "deletion-vectors"]),
    default="auto",
    show_default=True,
    help="Merge by rewriting files, or by marking rows as deleted (deletion vectors, which readers must support); auto: chosen "
    "by size.",
)
@output_option
@click.pass_context
def run(context: click.Context, /, config_file: Path | None, output: str, **options: Any) -> None:
    """Apply messages of Qlik Replicate or Debezium to Delta tables, one per source table, at TABLES/<schema>/<table>.

    A run with the same checkpoint continues where the last run ended. Ctrl-C or SIGTERM ends a run after its current
    micro-batch, and prints the summary. The exit code is 0, or 130 if a signal ended a run with --once.
    A second Ctrl-C stops immediately, which is safe. Spark runs on this machine, unless SPARK_MASTER, --conf
    spark.master=... or [spark] in the --config file set another master.

    \b
    Example:
      headstream replicate run --source file:///var/lib/cdc --topics cdc/data --metadata cdc/metadata \\
          --tables /data/tables --checkpoint /data/checkpoint --once --output json
    """
    from headstream.replicate.inputs.inputs import check_topics
    from headstream.replicate.run.copies import check_copies
    from headstream.replicate.storage.store_check import check_stores
    from headstream.spark.sessions.java import find_java

    config = _configure(context, config_file, options)
    find_java()
    check_topics(config)  # before Spark starts
    check_stores(config.store_places, read=config.schemas)
    check_copies(config)
    summary, was_stopped = _run(config)
    _print(summary, output)
    if was_stopped and config.once:
        click.get_current_context().exit(_INTERRUPTED)


def _configure(context: click.Context, config_file: Path | None, options: dict[str, Any]) -> ReplicateConfig:
    from headstream.replicate.settings.config import ReplicateConfig
    from headstream.replicate.settings.config_file import load_config
    from headstream.replicate.settings.debezium_settings import DebeziumSettings
    from headstream.replicate.settings.table_settings import TableRules, TableSettings

    default = click.core.ParameterSource.DEFAULT
    given = {
        name: value
        for name, value in options.items()
        if value is not None and (config_file is None or context.get_parameter_source(name) is not default)
    }
    of_tables = {name: given.pop(name) for name in ("mask_order", "datetimes", "catalog", "merge_strategy") if name in given}
    if given.pop("form", "replicate") == "debezium":
        given["debezium"] = DebeziumSettings()
    spark = dict(given.pop("spark", ()))
    if "driver_memory" in given:
        spark["spark.driver.memory"] = given.pop("driver_memory")
    if config_file is None:
        for name in ("source", "topics", "tables", "checkpoint"):
            if name not in given:
                raise click.UsageError(f"Missing option '--{name}': set it, or use --config FILE", context)
        return ReplicateConfig(**given, spark=spark, rules=TableRules(defaults=TableSettings(**of_tables)))
    config = load_config(config_file, given)
    config = replace(config, spark={**config.spark, **spark})
    return replace(config, rules=replace(config.rules, defaults=replace(config.rules.defaults, **of_tables)))


def _run(config: ReplicateConfig) -> tuple[Summary, bool]:
    """Run a pipeline to its end or until a signal; return its summary, and whether a signal arrived."""
    from headstream.replicate.run.pipeline import ReplicatePipeline
    from headstream.replicate.settings.config import is_kafka

    _show_log()
    is_brief = config.once and not is_kafka(config.source) and "spark" not in config.rules.engines
    with (
        show_progress("starting Spark") as show,
        restored_handlers(),
        open_session("headstream-replicate", config.spark, config.table_places, is_brief=is_brief) as spark,
    ):
        pipeline = ReplicatePipeline(spark, config, on_progress=lambda summary: show(_describe(summary)))
        came = stop_by_signals(pipeline.stop)
        show("waiting for messages")
        try:
            return pipeline.run(), bool(came)
        except Exception as error:
            if not came:
                raise
            raise ReplicateError(  # a signal to the whole process group ends Spark's processes early
                "the run was interrupted during a micro-batch",
                advice="Run the pipeline again: it continues where it stopped",
            ) from error


def _show_log() -> None:
    """Write the pipeline's log, from level INFO, to standard error."""
    logger = logging.getLogger("headstream")
    if not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)


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
