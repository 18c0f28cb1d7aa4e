"""Finds the schema by which a message is decoded. Schemas of the schema store are prepared once with their table's settings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from headstream.errors import SchemaError
from headstream.replicate.codec import Lineage, TableMetadata
from headstream.replicate.codec.avro.plan import RowPlan, compile_rows
from headstream.replicate.codec.avro.schema import AvroField, AvroType, parse_schema
from headstream.replicate.schemas.schema_store import SchemaStore, StoredSchema, shared_id, table_id
from headstream.replicate.schemas.schemas import TableSchema, table_schema
from headstream.replicate.schemas.target_columns import match_fields
from headstream.replicate.settings.config import ReplicateConfig
from headstream.replicate.settings.debezium_settings import DebeziumSettings
from headstream.replicate.settings.formats import MessageFormat
from headstream.replicate.settings.registry_settings import RegistrySettings
from headstream.replicate.settings.table_settings import TableRules


@dataclass(frozen=True, slots=True)
class Unwanted:
    """A table that is not selected as a target.

    Args:
        rows: Plan for reading the table's Avro rows, if their transaction events are needed and the schema can be read.
    """

    lineage: Lineage
    rows: RowPlan | None


@dataclass(frozen=True, slots=True)
class Missing:
    """A schema that has not arrived."""

    schema_id: str


_Ready: TypeAlias = TableSchema | SchemaError | Unwanted
Found: TypeAlias = _Ready | Missing
"""A prepared schema, the reason why it is unusable, a table that is not selected, or a schema that has not arrived."""
_IDS_OF_TABLES: Final = ("table:", "registry-", "debezium-")
"""Prefixes of ids that identify one table."""

_MAX_SCHEMAS: Final = 10_000
"""Maximum number of prepared schemas in the cache, since every message can contain its own schema."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeOptions:
    """The part of a pipeline's configuration that decoding needs; serializable for executors.

    Args:
        rules: The selected tables and their settings.
        format: The JSON names of a message's parts.
        topic_tables: Topic pattern -> `schema.table`, for messages that do not contain the table's name.
        details: Whether decoded changes contain all fields of a change, as change tables require.
        atomic: Whether the transaction events of unselected tables are needed.
        tracing: Whether the trace contexts of messages are needed.
        debezium: The topics with Debezium messages, and the settings for reading them.
    """

    rules: TableRules = field(default_factory=TableRules)
    format: MessageFormat = field(default_factory=MessageFormat)
    topic_tables: Mapping[str, str] = field(default_factory=dict)
    registry: RegistrySettings | None = None
    details: bool = False
    atomic: bool = False
    tracing: bool = False
    debezium: DebeziumSettings | None = None

    @classmethod
    def of(cls, config: ReplicateConfig) -> DecodeOptions:
        """Return the part of a configuration that decoding needs."""
        return cls(
            rules=config.rules,
            format=config.format,
            topic_tables=config.topic_tables,
            registry=config.registry,
            details=config.change_tables is not None,
            atomic=config.atomic,
            tracing=config.tracing,
            debezium=config.debezium,
        )


class SchemaCatalog:
    """Schemas prepared for decoding.

    The schema store is read again for every id that was not found.
    """

    def __init__(self, schema_store: SchemaStore, options: DecodeOptions) -> None:
        self._schema_store = schema_store
        self._options = options
        self._ready: dict[tuple[str, str | None, bool], _Ready] = {}
        self._owners: dict[tuple[str, str], Lineage] = {}
        self._owners_of = -1

    def needs_topic(self, schema_id: str) -> bool:
        """Return whether the table of messages with a schema id depends on their topic."""
        if not schema_id or schema_id.startswith(_IDS_OF_TABLES):
            return False
        return bool(self._options.topic_tables or self._schema_store.sharing(schema_id))

    def find(self, schema_id: str, own_schema: str | None = None, *, avro: bool = True, topic: str | None = None) -> Found:
        """Return the schema of messages with a schema id, an embedded schema, or both.

        Args:
            avro: Whether to decode Avro rows by the schema.
            topic: The messages' topic, required if needs_topic(); None for an id of the schema store.
        """
        known = self._ready.get((schema_id, own_schema, avro)) if topic is None else None
        if known is not None:
            return known
        try:
            entry = self._find_entry(schema_id, own_schema, topic)
        except SchemaError as error:
            return error
        return entry if isinstance(entry, Missing) else self._prepare(entry, own_schema, avro)

    def _find_entry(self, schema_id: str, own_schema: str | None, topic: str | None) -> StoredSchema | Missing:
        if own_schema is None:
            if not schema_id:
                raise SchemaError("the message has neither a schema id nor an embedded schema")
            return self._find_placed(schema_id, topic)
        try:
            record = parse_schema(own_schema)
            table = self._schema_store.find_namespace(record.name.rpartition(".")[0])
        except SchemaError:  # names no known table: the id decides, and its metadata can still arrive
            if not schema_id:
                raise
            return self._find_placed(schema_id, topic)
        entry = self._schema_store.find(schema_id) if schema_id else None
        if entry is not None and entry.table == table:
            return entry
        # A row decoded by the message's own schema belongs to the table named there.
        shared = self._schema_store.find(shared_id(schema_id, *table)) if schema_id else None
        return shared or self._find_versions(*table, [field.name for field in _data_fields(record)])[0]

    def find_versions(self, schema: str, table: str, names: Iterable[str]) -> list[Found]:
        """Return the possible schemas of JSON rows with the given columns, the most likely schema first.

        Schemas with exactly these columns are first, then schemas with more columns, the newest first. If no schema has all
        columns, the row waits for the next schema. Thus the result for a row does not depend on which other schemas have arrived.

        Returns:
            One or more schemas; a single result can also be a reason or a missing schema.
        """
        found = [
            each if isinstance(each, Missing) else self._prepare(each, None, False)
            for each in self._find_versions(schema, table, names, spelled=True)
        ]
        return [each for each in found if isinstance(each, TableSchema)] or found[:1]

    def _find_versions(
        self, schema: str, table: str, names: Iterable[str], *, spelled: bool = False
    ) -> list[StoredSchema] | list[Missing]:
        """Return the versions of a table with the given columns, by exact name if `spelled`, else also by Avro name."""
        history = self._schema_store.history(schema, table)[::-1]
        if history and not self._options.rules.wants(schema, table):
            return history[:1]
        wanted, exact, wider = tuple(names), list[StoredSchema](), list[StoredSchema]()
        for entry in history:
            columns = [column.name for column in entry.metadata.columns]
            left = set(wanted).difference(columns) if spelled else match_fields(columns, wanted)[1]
            if not left:
                (exact if len(wanted) == len(columns) else wider).append(entry)
        return exact + wider or [Missing(table_id(schema, table, len(history)))]

    def _find_placed(self, schema_id: str, topic: str | None) -> StoredSchema | Missing:
        """Return the schema of an id in a topic; rows are never applied to a table that their topic excludes.

        Raises:
            SchemaError: several tables have the id, and the topic does not identify the table.
        """
        entry = self._schema_store.find(schema_id)
        if entry is None or topic is None:
            return entry or Missing(schema_id)
        told = find_topic_table(self._options.topic_tables, topic)
        if told is not None and told != entry.table:
            own_id = shared_id(schema_id, *told)
            in_topic = entry if entry.topic == topic else None  # the topic has the entry's metadata, so it has several tables
            return self._schema_store.find(own_id) or in_topic or Missing(own_id)
        others = [] if told is not None else self._schema_store.sharing(schema_id)
        fitting = [each for each in (entry, *others) if each.topic == topic or not others]
        if len(fitting) == 1:
            return fitting[0]
        names = " and ".join(sorted(".".join(each.table) for each in (entry, *others)))
        raise SchemaError(
            f"schema id {schema_id} belongs to the tables {names}, but the topic {topic} does not identify the table",
            advice="Set the table of the topic in topic_tables, then redrive the message",
        )

    def _prepare(self, entry: StoredSchema, own_schema: str | None, avro: bool) -> _Ready:
        key = (entry.metadata.schema_id, own_schema, avro)
        if key not in self._ready:
            if len(self._ready) >= _MAX_SCHEMAS:
                self._ready.clear()
            self._ready[key] = self._make(entry, own_schema, avro)
        return self._ready[key]

    def _make(self, entry: StoredSchema, own_schema: str | None, avro: bool) -> _Ready:
        lineage = entry.metadata.lineage
        rules = self._options.rules
        if not rules.wants(lineage.schema, lineage.table):
            return Unwanted(lineage, self._plan_unwanted(entry, own_schema) if avro and self._options.atomic else None)
        try:
            settings = rules.settings_of(lineage.schema, lineage.table)
            details = self._options.details and settings.changes
            made = table_schema(
                entry.metadata, settings, earlier=self._find_earlier(entry), own_schema=own_schema, avro=avro, details=details
            )
            self._check_owner(made.table, lineage, several_tasks=settings.tasks == "all")
        except SchemaError as error:
            return error
        return made

    def _find_earlier(self, entry: StoredSchema) -> list[TableMetadata]:
        """Return the versions of a table that arrived before the given version."""
        lineage = entry.metadata.lineage
        history = self._schema_store.history(lineage.schema, lineage.table)
        if all(other.metadata.schema_id != entry.metadata.schema_id for other in history):
            self._schema_store.expire()  # the list of an object store's schemas is older than this entry
            history = self._schema_store.history(lineage.schema, lineage.table)
        return [other.metadata for other in sorted(history, key=_arrival) if _arrival(other) < _arrival(entry)]

    @staticmethod
    def _plan_unwanted(entry: StoredSchema, own_schema: str | None) -> RowPlan | None:
        try:
            return compile_rows(entry.metadata.data_schema if own_schema is None else own_schema)
        except SchemaError:
            return None

    def target_of(self, schema_id: str) -> tuple[str, str] | None:
        """Return the target of a schema id's table; see Decoder.target_of()."""
        try:
            entry = self._schema_store.find(schema_id)
        except SchemaError:
            return None
        if entry is None or not entry.metadata.columns or not self._options.rules.wants(*entry.table):
            return None
        lineage, settings = entry.metadata.lineage, self._options.rules.settings_of(*entry.table)
        target = settings.target_name(schema=lineage.schema, table=lineage.table, task=lineage.task, server=lineage.server)
        try:
            self._check_owner(target, lineage, several_tasks=settings.tasks == "all")
        except SchemaError:
            return lineage.schema, f"{lineage.table} of {lineage.task or lineage.server}"
        return target

    def _check_owner(self, target: tuple[str, str], lineage: Lineage, *, several_tasks: bool) -> None:
        """Reject a second source of a target: another table, or another task that captures the table."""
        count = self._schema_store.scan()
        if count != self._owners_of:
            self._owners_of = count
            self._owners = self._find_owners()
        owner = self._owners.get(target, lineage)
        name = f"{target[0]}.{target[1]}"
        if (owner.schema, owner.table) != (lineage.schema, lineage.table):
            raise SchemaError(
                f"the target {name} already belongs to the source table {owner.schema}.{owner.table}",
                advice="Set a different `target` for each source table",
            )
        if (owner.server, owner.task) != (lineage.server, lineage.task) and not several_tasks:
            raise SchemaError(
                f"the table {name} is already captured by the task {owner.task!r} of {owner.server!r}, and now also by "
                f"the task {lineage.task!r} of {lineage.server!r}",
                advice='Set tasks = "all" to apply both, or set a separate target for each task, as in target = "{task}.{table}"',
            )

    def _find_owners(self) -> dict[tuple[str, str], Lineage]:
        """Return the owner of each target: the source of the schema that arrived first."""
        first: dict[tuple[str, str], StoredSchema] = {}
        for (schema, table), history in self._schema_store.tables().items():
            if not self._options.rules.wants(schema, table):
                continue
            settings = self._options.rules.settings_of(schema, table)
            for entry in history:
                lineage = entry.metadata.lineage
                target = settings.target_name(schema=schema, table=table, task=lineage.task, server=lineage.server)
                now = first.get(target)
                if now is None or (entry.arrived_us, entry.metadata.schema_id) < (now.arrived_us, now.metadata.schema_id):
                    first[target] = entry
        return {target: entry.metadata.lineage for target, entry in first.items()}


def _arrival(entry: StoredSchema) -> tuple[int, int, str]:
    return entry.arrived_us, entry.metadata.lineage.table_version, entry.metadata.schema_id


def _data_fields(record: AvroType) -> tuple[AvroField, ...]:
    """Return the row fields of an embedded schema; empty if it is not a schema of data messages."""
    sections = [field.type for field in record.fields if field.name == "data"]
    rows = [branch for section in sections for branch in (section.branches or (section,)) if branch.kind == "record"]
    return rows[0].fields if rows else ()


def find_topic_table(topic_tables: Mapping[str, str], topic: str) -> tuple[str, str] | None:
    """Return the source schema and table of a topic (`stream/topic`) by the first matching pattern, or None.

    Args:
        topic_tables: Topic pattern -> `schema.table`. `{schema}` and `{table}` in a pattern match parts of the topic's name and
            are replaced in the table's name by these parts; `*` matches anything.
    """
    for pattern, name in topic_tables.items():
        match = re.fullmatch(_to_regex(pattern), topic)
        if match is not None:
            found = {"schema": "", "table": "", **match.groupdict()}
            before, dot, after = name.rpartition(".")
            parts = (before, after) if dot else ("", after)
            schema, table = (part.replace("{schema}", found["schema"]).replace("{table}", found["table"]) for part in parts)
            return schema, table
    return None


def _to_regex(pattern: str) -> str:
    parts = re.split(r"(\{schema\}|\{table\}|\*)", pattern)
    spelled = {"{schema}": "(?P<schema>[^/.]+)", "{table}": "(?P<table>[^/]+)", "*": ".*"}
    return "".join(spelled.get(part, re.escape(part)) for part in parts)
