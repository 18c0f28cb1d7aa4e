"""Table settings: names, keys, columns, history, types, and policies for schema changes.

Rules are applied in order. A rule has settings for the tables whose `schema.table` matches its pattern; later rules take
precedence. Patterns have the syntax of shell patterns (`shop.*`, `*.audit_?`) and are case-sensitive.
"""

from __future__ import annotations

import string
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any, Final, Literal

from headstream.replicate.settings.catalog_names import find_catalog_name_problem
from headstream.replicate.settings.merge_settings import MergeStrategy

SchemaPolicy = Literal["evolve", "fail", "park"]
"""evolve: the table is changed; fail: the pipeline stops; park: changes with the new schema wait until an operator decides."""

_TARGET_FIELDS: Final = ("server", "task", "schema", "table")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSettings:
    """Settings for the target table of a source table.

    Args:
        target: Name of the target, `schema.table` (separated by the last dot); {schema}, {table}, {task} and {server}
            of the source are replaced. Its Delta table is at `<schema>/<table>`.
        scd_type: 1 stores only the current rows, 2 stores every version of each row.
        engine: Engine that runs merges; `auto` chooses the engine by the session and the size of the work.
        merge_strategy: Whether merges rewrite files or write deletion vectors; `auto` chooses by size.
        keys: Source columns that identify a row; empty: the primary key.
        include_columns: Patterns of the source columns that the target has; key columns are always included.
        exclude_columns: Patterns of the source columns that the target does not have.
        rename_columns: Source column -> target column.
        deletes: `apply` deletes rows, `soft` marks rows as deleted, `skip` ignores deletions.
        partition_by: Target columns by which files are partitioned, if the table is created; not all types are
            supported.
        cluster_by: Target columns by which maintenance sorts the files.
        column_names: Whether new tables have Delta's column mapping: `mapped`: always; `plain`: only if a column name needs it.
        mask_order: Byte order of Avro column masks: `little` (byte 0 holds the first eight columns), `big`, or `auto`: the
            order is detected from the task's messages, and is `little` until then.
        decimal_overflow: Type for a NUMERIC of more than 38 digits: `string`, or `error` to reject it.
        datetimes: The type of a DATETIME: `utc`: TIMESTAMP, read as UTC; `ntz`: TIMESTAMP_NTZ, unchanged; `text`:
            STRING with all digits of the second. TIMESTAMP and TIMESTAMP_NTZ have microseconds.
        tasks: `one`: changes of a second task that captures the table are rejected; `all`: changes of all tasks are
            applied, ordered by their change sequences, which begin with the commit time.
        catalog: Template of the table's name in Spark's catalog, such as `lake.{schema}.{table}` with the target's
            schema and table; empty: the table is not registered.
        changes: Whether changes of the table are also written to a change table, if change tables are enabled.
        on_column_added: Policy if the source has a new column.
        on_column_dropped: Policy if a column was dropped; `evolve` keeps the values of old rows.
        on_column_renamed: Policy if a column at the same position has a new name.
        on_type_widened: Policy if the type of a column has a wider range.
        on_type_narrowed: Policy if the type of a column has a narrower range, or is a different type.
        on_nullability_changed: Policy if a column became nullable, or is no longer nullable.
        on_key_changed: Policy if the columns that identify a row have changed.
    """

    target: str = "{schema}.{table}"
    scd_type: Literal[1, 2] = 1
    engine: Literal["auto", "deltalake", "spark"] = "auto"
    merge_strategy: MergeStrategy = "auto"
    keys: tuple[str, ...] = ()
    include_columns: tuple[str, ...] = ("*",)
    exclude_columns: tuple[str, ...] = ()
    rename_columns: Mapping[str, str] = field(default_factory=dict)
    deletes: Literal["apply", "soft", "skip"] = "apply"
    partition_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    column_names: Literal["plain", "mapped"] = "plain"
    mask_order: Literal["auto", "little", "big"] = "auto"
    decimal_overflow: Literal["string", "error"] = "string"
    datetimes: Literal["utc", "ntz", "text"] = "utc"
    tasks: Literal["one", "all"] = "one"
    catalog: str = ""
    changes: bool = True
    on_column_added: SchemaPolicy = "evolve"
    on_column_dropped: SchemaPolicy = "evolve"
    on_column_renamed: SchemaPolicy = "evolve"
    on_type_widened: SchemaPolicy = "evolve"
    on_type_narrowed: SchemaPolicy = "park"
    on_nullability_changed: SchemaPolicy = "evolve"
    on_key_changed: SchemaPolicy = "park"

    def target_name(self, *, schema: str, table: str, task: str = "", server: str = "") -> tuple[str, str]:
        """Return the schema and table of a source table's target."""
        values = {"server": server, "task": task, "schema": schema, "table": table}
        before, dot, after = self.target.rpartition(".")
        if not dot:
            before, after = "{schema}", after
        return before.format_map(values), after.format_map(values)


@dataclass(frozen=True, slots=True)
class TableRule:
    """Settings for the tables whose `schema.table` matches a pattern."""

    pattern: str
    settings: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRules:
    """The selection of target tables, and their settings.

    Args:
        rules: Settings for matching tables, in order.
        include: Patterns of the selected source tables.
        exclude: Patterns of source tables whose messages are ignored.
    """

    defaults: TableSettings = field(default_factory=TableSettings)
    rules: tuple[TableRule, ...] = ()
    include: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()

    def wants(self, schema: str, table: str) -> bool:
        """Return whether a source table is selected."""
        return _fits(f"{schema}.{table}", self.include) and not _fits(f"{schema}.{table}", self.exclude)

    @property
    def engines(self) -> frozenset[str]:
        """All engines in the settings."""
        return frozenset({self.defaults.engine, *(rule.settings["engine"] for rule in self.rules if "engine" in rule.settings)})

    @property
    def has_catalog(self) -> bool:
        """Whether any table is registered in a catalog."""
        return bool(self.defaults.catalog) or any(rule.settings.get("catalog") for rule in self.rules)

    def settings_of(self, schema: str, table: str) -> TableSettings:
        """Return the settings of a source table."""
        found: dict[str, Any] = {}
        for rule in self.rules:
            if fnmatchcase(f"{schema}.{table}", rule.pattern):
                found |= rule.settings
        return replace(self.defaults, **found) if found else self.defaults


def find_table_problems(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the problems of table settings as setting name and reason; missing settings have default values."""
    problems = []
    both = [name for name in settings.get("cluster_by", ()) if name in settings.get("partition_by", ())]
    if both:
        problems.append(("cluster_by", f"the files are already partitioned by {both[0]!r}"))
    own = [name for name in settings.get("partition_by", ()) if name.lower().startswith("_hs_") or not name]
    if own:
        problems.append(("partition_by", f"{own[0]!r} is not a column of the source"))
    if any("~" in name for name in settings.get("partition_by", ())):
        problems.append(
            ("partition_by", "deltalake cannot compact the files of a column with ~ in its name: rename it (rename_columns)")
        )
    target = settings.get("target", "x")
    try:
        names = [name for _, name, _, _ in string.Formatter().parse(target) if name is not None]
    except ValueError as error:
        problems.append(("target", f"{target!r} cannot be read: {error}"))
        names = []
    unknown = [name for name in names if name not in _TARGET_FIELDS]
    if unknown:
        problems.append(("target", f"{{{unknown[0]}}} is not one of {{{'}, {'.join(_TARGET_FIELDS)}}}"))
    if not target or target.endswith(".") or target.startswith("."):
        problems.append(("target", f"{target!r} must contain the table name"))
    problem = find_catalog_name_problem(settings.get("catalog", ""))
    if problem is not None:
        problems.append(("catalog", problem))
    renamed = list(settings.get("rename_columns", {}).values())
    twice = sorted({name for name in renamed if renamed.count(name) > 1})
    if twice:
        problems.append(("rename_columns", f"two columns become {twice[0]!r}"))
    reserved = [name for name in renamed if name.lower().startswith("_hs_") or not name]
    if reserved:
        problems.append(("rename_columns", f"{reserved[0]!r} must not be empty or begin with _hs_"))
    for setting in ("keys", "partition_by", "cluster_by"):
        values = settings.get(setting, ())
        if len(set(values)) < len(values):
            problems.append((setting, "the list contains a column twice"))
    return problems


def _fits(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
