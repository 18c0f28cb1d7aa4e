"""What can be set for each table: names, keys, columns, history, types, and what a change of its schema leads to.

Rules are applied in their order: each gives some settings to the tables whose `schema.table` its pattern fits, and the
later one wins. Patterns are the shell's (`shop.*`, `*.audit_?`), and case matters in them.
"""

from __future__ import annotations

import string
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any, Final, Literal

__all__ = ["CHANGE_POLICIES", "SchemaPolicy", "TableRule", "TableRules", "TableSettings", "find_table_problems"]

SchemaPolicy = Literal["evolve", "fail", "park"]
"""evolve: the table follows; fail: the pipeline stops; park: that schema's changes wait, whole, until someone decides."""

CHANGE_POLICIES: Final = (
    "on_column_added",
    "on_column_dropped",
    "on_column_renamed",
    "on_type_widened",
    "on_type_narrowed",
    "on_nullability_changed",
    "on_key_changed",
)
"""The settings that say what a change of the source's schema leads to."""

_TARGET_FIELDS: Final = ("server", "task", "schema", "table")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSettings:
    """How one source table becomes one target table.

    Args:
        target: Name of the target, `schema.table` (the last dot divides), with {schema}, {table}, {task} and {server} of
            the source where they stand; its Delta table is at `<schema>/<table>`.
        scd_type: 1 keeps the rows as they are now, 2 keeps every version of them.
        engine: What runs merges; `auto` chooses.
        keys: Columns, by their source names, that identify a row, in place of the primary key; empty keeps that.
        include_columns: Patterns of the source columns that the target has. Key columns are always there.
        exclude_columns: Patterns of those that it has not.
        rename_columns: Source column -> column of the target.
        deletes: `apply` deletes rows, `soft` marks them, `skip` leaves them as they were.
        partition_by: Columns of the target that its files are partitioned by, when it is made.
        cluster_by: Columns of the target that maintenance sorts its files by.
        mask_order: Byte order of Avro column masks: `little` (byte 0 holds the first eight columns), `big`, or `auto`: what
            the task's own messages prove, `little` until one does.
        decimal_overflow: What a NUMERIC of more than 38 digits becomes: a STRING, or an error.
        datetimes: What a DATETIME becomes: `utc` a TIMESTAMP, read as UTC; `ntz` a TIMESTAMP_NTZ, as it is written.
        tasks: `one`: changes of a second task that captures the table are refused; `all`: every task's changes are
            applied, ordered by their change sequences, which begin with the commit time.
        changes: Whether its changes go into a change table too, where there are change tables.
        on_column_added: A column is new.
        on_column_dropped: A column is gone; `evolve` keeps its values in old rows.
        on_column_renamed: A column has another name at the same place.
        on_type_widened: A column holds more than before.
        on_type_narrowed: A column holds less, or something else.
        on_nullability_changed: A column may be null now, or no longer.
        on_key_changed: Other columns identify a row.
    """

    target: str = "{schema}.{table}"
    scd_type: Literal[1, 2] = 1
    engine: Literal["auto", "deltalake", "spark"] = "auto"
    keys: tuple[str, ...] = ()
    include_columns: tuple[str, ...] = ("*",)
    exclude_columns: tuple[str, ...] = ()
    rename_columns: Mapping[str, str] = field(default_factory=dict)
    deletes: Literal["apply", "soft", "skip"] = "apply"
    partition_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    mask_order: Literal["auto", "little", "big"] = "auto"
    decimal_overflow: Literal["string", "error"] = "string"
    datetimes: Literal["utc", "ntz"] = "utc"
    tasks: Literal["one", "all"] = "one"
    changes: bool = True
    on_column_added: SchemaPolicy = "evolve"
    on_column_dropped: SchemaPolicy = "evolve"
    on_column_renamed: SchemaPolicy = "evolve"
    on_type_widened: SchemaPolicy = "evolve"
    on_type_narrowed: SchemaPolicy = "park"
    on_nullability_changed: SchemaPolicy = "evolve"
    on_key_changed: SchemaPolicy = "park"

    def target_name(self, *, schema: str, table: str, task: str = "", server: str = "") -> tuple[str, str]:
        """Return the schema and table that a source table becomes.

        Args:
            schema: The source schema.
            table: The source table.
            task: The Replicate task.
            server: The Replicate server.
        """
        values = {"server": server, "task": task, "schema": schema, "table": table}
        before, dot, after = self.target.rpartition(".")
        if not dot:
            before, after = "{schema}", after
        return before.format_map(values), after.format_map(values)


@dataclass(frozen=True, slots=True)
class TableRule:
    """Settings for the tables that a pattern fits.

    Args:
        pattern: Of `schema.table`.
        settings: Name of a setting -> its value.
    """

    pattern: str
    settings: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRules:
    """Which tables there are to be, and the settings of each.

    Args:
        defaults: Settings of every table.
        rules: What differs for some, in order.
        include: Patterns of the source tables that are wanted.
        exclude: Patterns of those that are not; their messages are passed over.
    """

    defaults: TableSettings = field(default_factory=TableSettings)
    rules: tuple[TableRule, ...] = ()
    include: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()

    def wants(self, schema: str, table: str) -> bool:
        """Return whether a source table is to be a target table."""
        return _fits(f"{schema}.{table}", self.include) and not _fits(f"{schema}.{table}", self.exclude)

    def settings_of(self, schema: str, table: str) -> TableSettings:
        """Return the settings of a source table.

        Args:
            schema: The source schema.
            table: The source table.
        """
        found: dict[str, Any] = {}
        for rule in self.rules:
            if fnmatchcase(f"{schema}.{table}", rule.pattern):
                found |= rule.settings
        return replace(self.defaults, **found) if found else self.defaults


def find_table_problems(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what is wrong with table settings: the setting's name, and why.

    Args:
        settings: Names of settings -> values of the right types; those not given have their defaults.
    """
    problems = []
    both = [name for name in settings.get("cluster_by", ()) if name in settings.get("partition_by", ())]
    if both:
        problems.append(("cluster_by", f"the files are partitioned by {both[0]!r} already"))
    target = settings.get("target", "x")
    try:
        names = [name for _, name, _, _ in string.Formatter().parse(target) if name is not None]
    except ValueError as error:
        problems.append(("target", f"{target!r} cannot be read: {error}"))
        names = []
    unknown = [name for name in names if name not in _TARGET_FIELDS]
    if unknown:
        problems.append(("target", f"{{{unknown[0]}}} is none of {{{'}, {'.join(_TARGET_FIELDS)}}}"))
    if not target or target.endswith(".") or target.startswith("."):
        problems.append(("target", f"{target!r} names no table"))
    renamed = list(settings.get("rename_columns", {}).values())
    twice = sorted({name for name in renamed if renamed.count(name) > 1})
    if twice:
        problems.append(("rename_columns", f"two columns become {twice[0]!r}"))
    reserved = [name for name in renamed if name.lower().startswith("_hs_") or not name]
    if reserved:
        problems.append(("rename_columns", f"{reserved[0]!r} cannot be a column's name: it is empty, or begins with _hs_"))
    for setting in ("keys", "partition_by", "cluster_by"):
        values = settings.get(setting, ())
        if len(set(values)) < len(values):
            problems.append((setting, "a column stands there twice"))
    return problems


def _fits(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
