"""What a pipeline is told: where messages come from, where tables and its own state live, what to do when it goes wrong."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, get_args

from headstream.codec.replicate.formats import MessageFormat
from headstream.errors import InvalidInputError, InvalidOptionError
from headstream.model.identifiers import TopicName
from headstream.model.local_paths import find_path_problem
from headstream.spark.replicate.loads import LOAD_GAP_US
from headstream.spark.replicate.registry import RegistrySettings
from headstream.spark.replicate.table_settings import TableRules, find_table_problems

__all__ = [
    "MAX_MESSAGES_PER_BATCH",
    "PATH_SETTINGS",
    "TABLE_PLACES",
    "OnIncompleteTransaction",
    "OnMissingSchema",
    "Problem",
    "ReplicateConfig",
    "find_problems",
    "is_kafka",
]

OnMissingSchema = Literal["delayed", "dead-letter", "fail"]
OnIncompleteTransaction = Literal["wait", "apply", "fail"]

MAX_MESSAGES_PER_BATCH: Final = 200_000
"""Messages of one micro-batch: enough to spread a merge's fixed cost, few enough to hold decoded in the driver."""

PATH_SETTINGS: Final = ("tables", "checkpoint", "zone", "schemas", "change_tables", "dead_letter_table", "metrics")
TABLE_PLACES: Final = frozenset({"tables", "change_tables", "dead_letter_table"})
"""Those of them where Delta tables lie."""

_UNUSABLE_PLACE: Final = re.compile(r"%[0-9A-Fa-f]{2}|[][^|\\\x00-\x1f\x7f]")
"""What deltalake fails on in the path of a table: it decodes paths twice, and takes some characters for a URL's."""


def is_kafka(source: str | None) -> bool:
    """Return whether a source's URL names a Kafka cluster."""
    return source is not None and source.strip().lower().startswith("kafka:")


class Problem(NamedTuple):
    """What is wrong with a setting: its name, what, and what to do."""

    setting: str
    what: str
    advice: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicateConfig:
    """One pipeline.

    Args:
        source: URL of the log or Kafka cluster (`kafka://host:9092`) that the envelopes are in; None where the pipeline is
            given a DataFrame.
        topics: Topics with data messages, `stream/topic` (in Kafka also a plain name); metadata messages in them are
            understood too.
        metadata: Topics with metadata messages; may be empty where metadata is mixed in.
        kafka: Settings of Kafka's clients, `kafka.security.protocol` and the like.
        tables: Directory of the Delta tables: one a source table, at `<schema>/<table>`.
        checkpoint: Directory of everything the pipeline must remember.
        rules: Which tables, and the settings of each.
        zone: Directory of the schema zone; by default in the checkpoint.
        schemas: Directory of schemas that no message brings: metadata as JSON or as messages, and Avro schemas (*.avsc).
        registry: The schema registry, for messages with its framing.
        format: The names of a message's parts in JSON.
        topic_tables: Topic pattern -> `schema.table`, for messages that do not say their table; `{schema}` and `{table}`
            in the pattern stand for those parts of the topic's name.
        schema_wait_us: How long a data message waits for its schema before `on_missing_schema` applies, microseconds.
        on_missing_schema: `delayed` moves it to the delayed topic (from where it still comes back), `dead-letter` gives
            it up, `fail` stops the pipeline.
        delayed: The delayed topic, in the pipeline's own log.
        max_parked_count: Most messages that may wait; beyond it the pipeline does not read on.
        max_parked_bytes: Most bytes that may wait.
        max_parked_age_us: Longest time that a message may wait before an alarm is raised, microseconds.
        max_dead_rate: The share of a micro-batch's messages that may be given up, 0 to 1; beyond it the pipeline stops.
        dead_rate_messages: Smallest number of messages that a share is told of.
        atomic: Whether a transaction's changes to a table become visible all at once or not at all.
        transaction_wait_us: How long a transaction may be without some of its events before `on_incomplete_transaction`
            applies, microseconds.
        on_incomplete_transaction: `wait` raises an alarm and waits on, `apply` applies what there is of it, `fail` stops
            the pipeline.
        take_over: Whether tables that another pipeline has written become this one's; without, they are refused.
        once: Stop when all that was there at the start has been applied.
        max_messages_per_batch: Most messages of one micro-batch.
        max_bytes_per_batch: Most stored bytes of one micro-batch, give or take a send; None for an eighth of the heap of Spark's
            driver. A log's alone: Spark's Kafka source has no such limit.
        spark: Settings of the Spark session, `spark.driver.memory` and the like, for who starts one.
        change_tables: Directory of change tables, all changes of each table as they came, at `<schema>/<table>`; None for none.
        dead_letter_table: Directory of a Delta table of the dead letter, beside its topic; None for none.
        metrics: File that metrics are written to in the OpenMetrics format; None for none.
        tombstones_kept_us: How long deletions are remembered after they were applied, microseconds; None for ever. An older
            change that comes later still, for a row that is not there, is given up with the reason.
        compact_every_us: How often a table's small files are put together, microseconds; 0 for never.
        vacuum_every_us: How often files that no version needs are deleted, microseconds; 0 for never.
        vacuum_kept_us: How old those files must be, microseconds.
        load_gap_us: How long after a change a REFRESH row must be logged to begin a new load by itself, microseconds.

    Raises:
        InvalidOptionError: something is missing, contradicts itself or is out of range: all of it is told at once.
    """

    source: str | None
    topics: tuple[str, ...]
    metadata: tuple[str, ...] = ()
    kafka: Mapping[str, str] = field(default_factory=dict)
    tables: Path
    checkpoint: Path
    rules: TableRules = field(default_factory=TableRules)
    zone: Path | None = None
    schemas: Path | None = None
    registry: RegistrySettings | None = None
    format: MessageFormat = field(default_factory=MessageFormat)
    topic_tables: Mapping[str, str] = field(default_factory=dict)
    schema_wait_us: int = 60_000_000
    on_missing_schema: OnMissingSchema = "delayed"
    delayed: str = "replicate/delayed"
    max_parked_count: int = 10_000_000
    max_parked_bytes: int = 20 << 30
    max_parked_age_us: int = 86_400_000_000
    max_dead_rate: float = 0.1
    dead_rate_messages: int = 1000
    atomic: bool = False
    transaction_wait_us: int = 300_000_000
    on_incomplete_transaction: OnIncompleteTransaction = "wait"
    take_over: bool = False
    once: bool = False
    max_messages_per_batch: int = MAX_MESSAGES_PER_BATCH
    max_bytes_per_batch: int | None = None
    spark: Mapping[str, str] = field(default_factory=dict)
    change_tables: Path | None = None
    dead_letter_table: Path | None = None
    metrics: Path | None = None
    tombstones_kept_us: int | None = None
    compact_every_us: int = 0
    vacuum_every_us: int = 0
    vacuum_kept_us: int = 7 * 86_400_000_000
    load_gap_us: int = LOAD_GAP_US

    def __post_init__(self) -> None:
        problems = find_problems({item.name: getattr(self, item.name) for item in fields(self)})
        defaults = {item.name: getattr(self.rules.defaults, item.name) for item in fields(self.rules.defaults)}
        for settings in (defaults, *(rule.settings for rule in self.rules.rules)):
            problems += [Problem(name, what) for name, what in find_table_problems(settings)]
        if len(problems) == 1:
            raise InvalidOptionError(problems[0].what, where=problems[0].setting, advice=problems[0].advice)
        if problems:
            told = "; ".join(f"{problem.setting}: {problem.what}" for problem in problems)
            raise InvalidOptionError(f"{len(problems)} settings cannot be used: {told}")

    @property
    def zone_directory(self) -> Path:
        """Where the schema zone is."""
        return self.zone if self.zone is not None else self.checkpoint / "zone"

    @property
    def all_topics(self) -> tuple[str, ...]:
        """Every topic read, each once."""
        return tuple(dict.fromkeys((*self.metadata, *self.topics)))


_POLICIES: Final = {
    "on_missing_schema": get_args(OnMissingSchema),
    "on_incomplete_transaction": get_args(OnIncompleteTransaction),
}
_AT_LEAST: Final = {
    "schema_wait_us": (0, "a wait cannot be negative"),
    "transaction_wait_us": (0, "a wait cannot be negative"),
    "max_parked_count": (1, "at least one message must be able to wait"),
    "max_parked_bytes": (1, "at least one message must be able to wait"),
    "max_parked_age_us": (0, "a wait cannot be negative"),
    "dead_rate_messages": (1, "a share is told of at least one message"),
    "max_messages_per_batch": (1, "a micro-batch has at least one message"),
    "max_bytes_per_batch": (1, "a micro-batch has at least one byte"),
    "tombstones_kept_us": (0, "a time cannot be negative"),
    "compact_every_us": (0, "a time cannot be negative"),
    "vacuum_every_us": (0, "a time cannot be negative"),
    "vacuum_kept_us": (0, "a time cannot be negative"),
    "load_gap_us": (0, "a time cannot be negative"),
}


def find_problems(settings: Mapping[str, Any]) -> list[Problem]:
    """Return everything that is wrong with the settings of a pipeline.

    Args:
        settings: Fields of ReplicateConfig -> values of the right types; those not given have their defaults.
    """
    problems = []
    if not settings.get("topics"):
        problems.append(Problem("topics", "no topic to read", "Give at least one, as in --topics cdc/data"))
    plain = is_kafka(settings.get("source")) or settings.get("source") is None
    for setting in ("topics", "metadata"):
        for name in settings.get(setting, ()):
            if not (plain and name and "/" not in name):
                problems += _topic_problem(setting, name)
    problems += _topic_problem("delayed", settings.get("delayed", "replicate/delayed"))
    for setting, policies in _POLICIES.items():
        if settings.get(setting, policies[0]) not in policies:
            problems.append(Problem(setting, f"{settings[setting]!r} is not a policy", f"Use one of {', '.join(policies)}"))
    for setting, (least, what) in _AT_LEAST.items():
        value = settings.get(setting, least)
        if value is not None and value < least:
            problems.append(Problem(setting, what))
    if not 0 <= settings.get("max_dead_rate", 0) <= 1:
        problems.append(Problem("max_dead_rate", "a share is between 0 and 1", "Write 0.1 for one message in ten"))
    if settings.get("kafka") and not is_kafka(settings.get("source")):
        problems.append(Problem("kafka", "settings of Kafka's clients, and the source is not Kafka"))
    if settings.get("max_bytes_per_batch") is not None and is_kafka(settings.get("source")):
        problems.append(Problem("max_bytes_per_batch", "Spark's Kafka source has no such limit", "Use max_messages_per_batch"))
    for name in settings.get("spark", ()):
        if not name.startswith("spark."):
            problems.append(Problem("spark", f"{name!r} is no setting of Spark", "Their names begin with spark."))
    return problems + _path_problems(settings) + _place_problems(settings)


def _topic_problem(setting: str, name: str) -> list[Problem]:
    try:
        TopicName.parse(name)
    except InvalidInputError as error:
        return [Problem(setting, error.what, error.advice)]
    return []


def _path_problems(settings: Mapping[str, Any]) -> list[Problem]:
    """Paths with a scheme that is not served, and names of a catalog's tables where a directory belongs."""
    problems = []
    for name in PATH_SETTINGS:
        if settings.get(name) is not None:
            found = find_path_problem(str(settings[name]), is_table=name in TABLE_PLACES)
            if found is not None:
                problems.append(Problem(name, *found))
    return problems


def _place_problems(settings: Mapping[str, Any]) -> list[Problem]:
    """Two things in one directory, or a directory where deltalake finds no table: the tables, the checkpoint, and the like."""
    names = ("tables", "checkpoint", "change_tables", "dead_letter_table")
    places = [(name, Path(settings[name]).resolve()) for name in names if settings.get(name) is not None]
    problems = []
    for index, (name, place) in enumerate(places):
        if _UNUSABLE_PLACE.search(str(place)):
            problems.append(
                Problem(name, f"Delta tables cannot lie in {str(place)!r}", "Take a path without %XX, [ ] ^ | or \\ in it")
            )
        for other, before in places[:index]:
            if place == before:
                problems.append(Problem(name, f"{other} and {name} are one directory, {place}", "Give two"))
    return problems
