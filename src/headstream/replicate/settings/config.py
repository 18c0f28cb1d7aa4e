"""The configuration of a pipeline: source, locations of tables and pipeline state, and error policies."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, get_args

from headstream.core.model.identifiers import TopicName
from headstream.errors import InvalidInputError, InvalidOptionError
from headstream.replicate.settings.debezium_settings import DebeziumSettings
from headstream.replicate.settings.formats import MessageFormat
from headstream.replicate.settings.iceberg_settings import IcebergSettings
from headstream.replicate.settings.kafka_topic import is_kafka_topic, parse_kafka_topic
from headstream.replicate.settings.merge_settings import MergeSettings
from headstream.replicate.settings.registry_settings import RegistrySettings
from headstream.replicate.settings.table_settings import TableRules, find_table_problems
from headstream.replicate.storage.places import Place, StorePlace, bind, find_place_problem, resolve_place
from headstream.replicate.storage.storage_settings import StorageSettings

OnMissingSchema = Literal["delayed", "dead-letter", "fail"]
OnIncompleteTransaction = Literal["wait", "apply", "fail"]

LOAD_GAP_US: Final = 5 * 60 * 1_000_000
"""Minimum time between a change and a later REFRESH row, in the log, for the row to begin a new load, microseconds. Within this
time, rows of one load and changes can be in any order, because of partitions and repeated batches."""

MAX_MESSAGES_PER_BATCH: Final = 200_000
"""Maximum number of messages per micro-batch, which balances a merge's fixed cost and the driver's memory."""

PATH_SETTINGS: Final = (
    "tables",
    "checkpoint",
    "checkpoint_from",
    "zone",
    "schemas",
    "change_tables",
    "dead_letter_table",
    "metrics",
)
TABLE_PLACES: Final = frozenset({"tables", "change_tables", "dead_letter_table"})
"""The path settings for Delta tables."""

STORE_PLACES: Final = frozenset(PATH_SETTINGS) - {"checkpoint_from"}
"""All path settings that can be in an object store."""

DELAYED_TOPIC: Final = "replicate/delayed"
"""The default delayed topic in a pipeline's own log."""

_UNUSABLE_PLACE: Final = re.compile(r"%[0-9A-Fa-f]{2}|[][^|\\\x00-\x1f\x7f]")
"""Path parts that deltalake cannot handle, because it decodes paths twice and parses some characters as parts of a URL."""


def is_kafka(source: str | None) -> bool:
    """Return whether a source is the URL of a Kafka cluster."""
    return source is not None and source.strip().lower().startswith("kafka:")


class Problem(NamedTuple):
    """An invalid setting: its name, the problem, and advice."""

    setting: str
    what: str
    advice: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicateConfig:
    """The configuration of one pipeline.

    Args:
        source: URL of the log or Kafka cluster (`kafka://host:9092`) to read; None if the pipeline reads a DataFrame.
        topics: Topics with data messages, `stream/topic` (in Kafka also a plain name); metadata messages in them are read too.
        metadata: Topics with metadata messages; empty if the data topics contain these messages.
        kafka: Kafka client settings, such as `kafka.security.protocol`.
        tables: Directory or URI of the Delta tables: one per source table, at `<schema>/<table>`.
        checkpoint: Directory or URI of the pipeline's own state.
        checkpoint_from: Directory of a checkpoint to move to `checkpoint`, which must then be in an object store.
        local_copy: The local working copy, if the checkpoint is in an object store; set by the pipeline.
        rules: The tables and their settings.
        zone: Directory or URI of the schema store; by default in the checkpoint.
        schemas: Directory or URI of schemas that do not arrive in messages: metadata (JSON or messages), Avro schemas (*.avsc).
        registry: The schema registry for messages with registry framing.
        format: The JSON names of a message's parts.
        debezium: The topics with Debezium messages, and settings for reading them; None if there are none.
        topic_tables: Topic pattern -> `schema.table`, for messages that do not contain the table's name. `{schema}` and `{table}`
            in the pattern match the schema and the table in the topic name.
        schema_wait_us: Time for which a data message waits for its schema before `on_missing_schema` applies, microseconds.
        on_missing_schema: Effect of a schema that does not arrive: `delayed` moves the waiting message to the delayed topic, and
            applies it when the schema arrives; `dead-letter` moves it to the dead-letter topic; `fail` stops the pipeline.
        delayed: The delayed topic in the pipeline's own log, or a Kafka topic (`kafka://host:9092/topic`) to which delayed
            messages are also copied.
        dead_letter: A Kafka topic to which dead letters are also copied, `kafka://host:9092/topic`; None: no copies.
        max_parked_count: Maximum number of waiting messages; if it is exceeded, the pipeline stops.
        max_parked_bytes: Maximum size of waiting messages, bytes; if it is exceeded, the pipeline stops.
        max_parked_age_us: Waiting time of a message after which an alarm is raised, microseconds.
        max_dead_rate: Maximum share of dead letters, 0 to 1. If the messages of a table exceed this share, the table stops. If
            messages of a topic that belong to no table exceed this share, the pipeline stops.
        dead_rate_messages: Minimum number of messages before `max_dead_rate` applies.
        atomic: Whether all changes of a transaction to a table become visible together.
        transaction_wait_us: Time for which a transaction can be incomplete before `on_incomplete_transaction` applies,
            microseconds.
        on_incomplete_transaction: `wait` raises an alarm and continues to wait, `apply` applies the events that have arrived,
            `fail` stops the pipeline.
        accept_recreated: Whether topics that were deleted and recreated are read from their beginning; otherwise the run ends
            with an error.
        accept_loss: Whether to skip messages that were deleted before they were read; otherwise the run ends with an error.
        take_over: Whether to take over tables that another pipeline has written; otherwise such tables are rejected.
        once: Whether to stop after applying all messages that existed at the start.
        trigger_every_us: Minimum time between the starts of two micro-batches, microseconds; 0: no pause.
        max_messages_per_batch: Maximum number of messages per micro-batch; for a log, 5 % more if the micro-batch then reads all
            remaining messages.
        max_bytes_per_batch: Maximum stored size of a micro-batch, bytes, accurate to one send; None: an eighth of the heap of
            Spark's driver. For logs only: Spark's Kafka source ignores this limit.
        spark: Spark session settings, such as `spark.driver.memory`, used if the command starts the session.
        change_tables: Directory or URI of change tables, with all changes of a table, at `<schema>/<table>`; None: no change
            tables.
        dead_letter_table: Directory or URI of a Delta table to which dead letters are also written; None: no table.
        storage: The object store of all URIs.
        merge: Settings for merges with deletion vectors.
        iceberg: The Iceberg tables that share the Delta tables' files; None: no Iceberg tables.
        metrics: File or URI to which metrics are written in the OpenMetrics format; None: no file.
        metrics_otlp: Whether metrics are sent over OTLP, to the endpoint set in OpenTelemetry's variables.
        tracing: Whether to record OpenTelemetry spans of micro-batches and merges, linked to the spans of sampled messages.
        tombstones_kept_us: Time for which deletions are remembered after they were applied, microseconds; None: unlimited. A
            change that arrives later, is older than the forgotten deletions, and belongs to a missing row is dead-lettered.
        compact_every_us: Interval at which a table's small files are compacted, microseconds; 0: never.
        vacuum_every_us: Interval at which files that no version needs are deleted, microseconds; 0: never.
        vacuum_kept_us: Minimum age of the files that `vacuum_every` deletes, microseconds.
        load_gap_us: Minimum time between a change and a later REFRESH row that begins a new load, microseconds.

    Raises:
        InvalidOptionError: settings are missing, contradictory or out of range; the error lists all problems.
    """

    source: str | None
    topics: tuple[str, ...]
    metadata: tuple[str, ...] = ()
    kafka: Mapping[str, str] = field(default_factory=dict)
    tables: Place
    checkpoint: Place
    checkpoint_from: Path | None = None
    local_copy: Path | None = None
    rules: TableRules = field(default_factory=TableRules)
    zone: Place | None = None
    schemas: Place | None = None
    registry: RegistrySettings | None = None
    format: MessageFormat = field(default_factory=MessageFormat)
    debezium: DebeziumSettings | None = None
    topic_tables: Mapping[str, str] = field(default_factory=dict)
    schema_wait_us: int = 60_000_000
    on_missing_schema: OnMissingSchema = "delayed"
    delayed: str = DELAYED_TOPIC
    dead_letter: str | None = None
    max_parked_count: int = 10_000_000
    max_parked_bytes: int = 20 << 30
    max_parked_age_us: int = 86_400_000_000
    max_dead_rate: float = 0.1
    dead_rate_messages: int = 1000
    atomic: bool = False
    transaction_wait_us: int = 300_000_000
    on_incomplete_transaction: OnIncompleteTransaction = "wait"
    take_over: bool = False
    accept_recreated: bool = False
    accept_loss: bool = False
    once: bool = False
    trigger_every_us: int = 0
    max_messages_per_batch: int = MAX_MESSAGES_PER_BATCH
    max_bytes_per_batch: int | None = None
    spark: Mapping[str, str] = field(default_factory=dict)
    change_tables: Place | None = None
    dead_letter_table: Place | None = None
    storage: StorageSettings = field(default_factory=StorageSettings)
    merge: MergeSettings = field(default_factory=MergeSettings)
    iceberg: IcebergSettings | None = None
    metrics: Place | None = None
    metrics_otlp: bool = False
    tracing: bool = False
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
            problems_text = "; ".join(f"{problem.setting}: {problem.what}" for problem in problems)
            raise InvalidOptionError(f"{len(problems)} settings are invalid: {problems_text}")

        for name in STORE_PLACES:
            place: Place | None = getattr(self, name)
            if place is not None:
                object.__setattr__(self, name, bind(place, self.storage))

    @property
    def table_places(self) -> tuple[Place, ...]:
        """The locations of Delta tables."""
        return tuple(place for name in sorted(TABLE_PLACES) if (place := getattr(self, name)) is not None)

    @property
    def store_places(self) -> tuple[Place, ...]:
        """The locations that a pipeline writes to and that can be in an object store."""
        more = (self.zone, None if self.metrics is None else self.metrics.parent)
        return (*self.table_places, self.checkpoint, *(place for place in more if place is not None))

    @property
    def state_directory(self) -> Path:
        """The directory of the pipeline's own state: the checkpoint or its working copy."""
        directory = self.local_copy if isinstance(self.checkpoint, StorePlace) else self.checkpoint
        if directory is None:
            raise InvalidOptionError("the checkpoint in the object store has no working copy yet", where="checkpoint")
        return directory

    @property
    def merge_settings(self) -> MergeSettings:
        """Settings for merges with deletion vectors, including the directory of the key indexes."""
        return replace(self.merge, key_index=self.merge.key_index or self.state_directory / "key-index")

    @property
    def schemas_directory(self) -> Path:
        """The directory of the schema store or of its copy."""
        return self.zone if isinstance(self.zone, Path) else self.state_directory / "zone"

    @property
    def schemas_place(self) -> StorePlace | None:
        """The schema store's URI, if it is in an object store."""
        return self.zone if isinstance(self.zone, StorePlace) else None

    @property
    def delayed_topic(self) -> str:
        """The delayed topic in the pipeline's own log."""
        return DELAYED_TOPIC if is_kafka_topic(self.delayed) else self.delayed

    @property
    def all_topics(self) -> tuple[str, ...]:
        """All distinct topics that are read."""
        return tuple(dict.fromkeys((*self.metadata, *self.topics)))


_POLICIES: Final = {
    "on_missing_schema": get_args(OnMissingSchema),
    "on_incomplete_transaction": get_args(OnIncompleteTransaction),
}
_AT_LEAST: Final = {
    "schema_wait_us": (0, "the time must not be negative"),
    "transaction_wait_us": (0, "the time must not be negative"),
    "max_parked_count": (1, "the value must be at least 1"),
    "max_parked_bytes": (1, "the value must be at least 1"),
    "max_parked_age_us": (0, "the time must not be negative"),
    "dead_rate_messages": (1, "the value must be at least 1"),
    "trigger_every_us": (0, "the time must not be negative"),
    "max_messages_per_batch": (1, "the value must be at least 1"),
    "max_bytes_per_batch": (1, "the value must be at least 1"),
    "tombstones_kept_us": (0, "the time must not be negative"),
    "compact_every_us": (0, "the time must not be negative"),
    "vacuum_every_us": (0, "the time must not be negative"),
    "vacuum_kept_us": (0, "the time must not be negative"),
    "load_gap_us": (0, "the time must not be negative"),
}


def find_problems(settings: Mapping[str, Any]) -> list[Problem]:
    """Return all problems of a pipeline's settings; missing settings have default values."""
    problems = []
    if not settings.get("topics"):
        problems.append(Problem("topics", "the list of topics is empty", "Set at least one topic, for example --topics cdc/data"))
    plain = is_kafka(settings.get("source")) or settings.get("source") is None
    for setting in ("topics", "metadata"):
        for name in settings.get(setting, ()):
            is_kafkas_own = name and ("/" not in name or name.startswith("/"))  # Spark's Kafka source checks these
            if not (plain and is_kafkas_own):
                problems += _topic_problem(setting, name)
    problems += _dead_letter_problems(settings)
    for setting, policies in _POLICIES.items():
        if settings.get(setting, policies[0]) not in policies:
            problems.append(Problem(setting, f"{settings[setting]!r} is not a valid policy", f"Use one of {', '.join(policies)}"))
    for setting, (least, what) in _AT_LEAST.items():
        value = settings.get(setting, least)
        if value is not None and value < least:
            problems.append(Problem(setting, what))
    if not 0 <= settings.get("max_dead_rate", 0) <= 1:
        problems.append(Problem("max_dead_rate", "the share must be from 0 to 1", "Write 0.1 for one message in ten"))
    if settings.get("kafka") and not is_kafka(settings.get("source")):
        problems.append(Problem("kafka", "Kafka client settings require a Kafka source"))
    if settings.get("max_bytes_per_batch") is not None and is_kafka(settings.get("source")):
        problems.append(Problem("max_bytes_per_batch", "Spark's Kafka source ignores this limit", "Use max_messages_per_batch"))
    for name in settings.get("spark", ()):
        if not name.startswith("spark."):
            problems.append(Problem("spark", f"{name!r} is not a Spark setting", "The name must begin with spark."))
    return problems + _path_problems(settings) + _place_problems(settings)


def _dead_letter_problems(settings: Mapping[str, Any]) -> list[Problem]:
    delayed, dead_letter = settings.get("delayed", DELAYED_TOPIC), settings.get("dead_letter")
    problems = _kafka_topic_problem("delayed", delayed) if is_kafka_topic(delayed) else _topic_problem("delayed", delayed)
    if dead_letter is None:
        return problems
    if dead_letter == delayed:
        problems.append(Problem("dead_letter", "delayed and dead_letter must be different topics", "Set another topic"))
    return problems + _kafka_topic_problem("dead_letter", dead_letter)


def _kafka_topic_problem(setting: str, url: str) -> list[Problem]:
    try:
        parse_kafka_topic(url)
    except InvalidOptionError as error:
        return [Problem(setting, error.what, error.advice)]
    return []


def _topic_problem(setting: str, name: str) -> list[Problem]:
    try:
        TopicName.parse(name)
    except InvalidInputError as error:
        return [Problem(setting, error.what, error.advice)]
    return []


def _path_problems(settings: Mapping[str, Any]) -> list[Problem]:
    """Return the path problems: unsupported schemes, and catalog table names instead of directories."""
    problems = []
    for name in PATH_SETTINGS:
        if settings.get(name) is not None:
            found = find_place_problem(settings[name], served=name in STORE_PLACES, is_table=name in TABLE_PLACES)
            if found is not None:
                problems.append(Problem(name, *found))
    if settings.get("checkpoint_from") is not None and not isinstance(settings.get("checkpoint"), StorePlace):
        problems.append(Problem("checkpoint_from", "checkpoint must be in an object store", "Set checkpoint to a URI"))
    return problems


def _place_problems(settings: Mapping[str, Any]) -> list[Problem]:
    """Return the location problems: locations that two settings share, and locations whose tables deltalake cannot open."""
    names = ("tables", "checkpoint", "change_tables", "dead_letter_table")
    places = [(name, resolve_place(settings[name])) for name in names if settings.get(name) is not None]
    problems = []
    for index, (name, place) in enumerate(places):
        if isinstance(place, StorePlace) and place.scheme == "hdfs" and not re.fullmatch("[!-~]*", place.key):
            problems.append(
                Problem(name, f"Delta tables cannot be in {str(place)!r}", "Use a path of ASCII characters without spaces")
            )
        if _UNUSABLE_PLACE.search(place.key if isinstance(place, StorePlace) else str(place)):
            problems.append(Problem(name, f"Delta tables cannot be in {str(place)!r}", "Use a path without %XX, [ ] ^ | and \\"))
        for other, before in places[:index]:
            if place == before:
                problems.append(Problem(name, f"{other} and {name} are the same location, {place}", "Set another location"))
    stores = [settings.get(name) for name in STORE_PLACES]
    schemes = {store.scheme for store in stores if isinstance(store, StorePlace)} - {"hdfs"}
    if len(schemes) > 1 and "storage" in settings and settings["storage"].endpoint is not None:
        found = " and ".join(f"{scheme}://" for scheme in sorted(schemes))
        problems.append(Problem("storage", f"one endpoint cannot serve {found}", "Set the endpoint in the environment"))
    return problems
