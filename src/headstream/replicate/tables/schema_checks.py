"""Checks a table's settings against its stored rows, and a schema against the previous schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headstream.errors import SchemaChangeError
from headstream.replicate.apply.evolution import SeenSchema, compare_schemas
from headstream.replicate.apply.tombstones import Tombstones
from headstream.replicate.apply.type1.merge import Scd1Table
from headstream.replicate.apply.type2.merge import Scd2Table
from headstream.replicate.columns.changes import CHANGE_KEY
from headstream.replicate.columns.partition_values import can_partition_by
from headstream.replicate.engines.engine import TableEngine
from headstream.replicate.engines.plan import DELETED
from headstream.replicate.settings.table_settings import TableSettings

_RECREATE: Final = "Load the table again into an empty directory, or restore the previous scd_type"


def open_rows(
    name: tuple[str, str],
    engine: TableEngine,
    keys: list[str],
    given: TableSettings | None,
    tombstones: Tombstones,
    *,
    was_soft: bool | None,
) -> Scd1Table | Scd2Table:
    """Return a table of the SCD type in its settings or of its stored rows.

    Args:
        was_soft: Whether deleted rows have been kept and marked; None if unknown. Without settings, stored rows determine the
            type.

    Raises:
        SchemaChangeError: the stored rows do not have the type in the settings, or the table has no key.
    """
    settings = given or TableSettings()
    has_history = "_hs_valid_from" in engine.columns
    soft = settings.deletes == "soft"
    if given is None:  # a load can be settled before the run's first change
        soft = was_soft if was_soft is not None else not has_history and DELETED in engine.columns
    if not has_history and (engine.columns or settings.scd_type == 1):
        if settings.scd_type == 2:
            what = "the table has current rows (SCD type 1), but type 2 is configured"
            raise stop_table(name, what, _RECREATE, stops=False)
        return Scd1Table(
            engine, keys, tombstones, soft=soft, partition_by=settings.partition_by, mapped=settings.column_names == "mapped"
        )
    if settings.scd_type == 1 and settings != TableSettings():
        what = "the table has all versions of its rows (SCD type 2), but type 1 is configured"
        raise stop_table(name, what, _RECREATE, stops=False)
    if keys == [CHANGE_KEY]:
        what = "the table has no key, so its rows have no history"
        raise stop_table(name, what, "Set the table's key columns in `keys`", stops=False)
    return Scd2Table(
        engine, keys, settings.partition_by, soft=soft, mapped=settings.column_names == "mapped", memory=tombstones.path
    )


def check_schema(name: tuple[str, str], last: SeenSchema | None, seen: SeenSchema, settings: TableSettings) -> None:
    """Raise SchemaChangeError if the settings or the table's rows do not allow a change from the last schema."""
    if last is None:
        return
    if last.keys != seen.keys:
        was, now = (", ".join(keys) for keys in (last.keys, seen.keys))
        advice = "Set `keys` to columns that do not change, or reload the table into an empty directory"
        raise stop_table(name, f"the primary key was {was} and is now {now}", advice, stops=settings.on_key_changed == "fail")
    if seen.version < last.version:
        return
    for difference in compare_schemas(last, seen):
        policy = getattr(settings, difference.kind)
        if policy != "evolve":
            advice = f"To change the target too, set {difference.kind} to evolve for this table"
            raise stop_table(name, f"{difference.what}, but {difference.kind} is {policy}", advice, stops=policy == "fail")


def check_partitions(name: tuple[str, str], types: Mapping[str, str], settings: TableSettings, *, is_new: bool) -> None:
    """Raise SchemaChangeError if a partition column is missing or has a type that engines write differently.

    Args:
        is_new: Whether the table will be created; otherwise a column may have been dropped in the source.
    """
    for column in settings.partition_by:
        if column not in types:
            if is_new:
                what = f"partition_by names {column!r}, but the table has only the columns {', '.join(types)}"
                raise stop_table(name, what, "Set `partition_by` to columns of the target", stops=False)
        elif not can_partition_by(types[column]):
            what = f"partition_by names {column!r}, which is {types[column]}: engines write values of this type differently"
            advice = (
                "Partition by strings, whole numbers, dates, times or booleans; reload an existing table into an empty directory"
            )
            raise stop_table(name, what, advice, stops=False)


def stop_table(name: tuple[str, str], what: str, advice: str | None, *, stops: bool) -> SchemaChangeError:
    """Return the error for a table that does not follow a schema; `stops`: whether the pipeline stops."""
    return SchemaChangeError(what, where=f"table {'.'.join(name)}", advice=advice, stops=stops)
