"""Changes of small tables that other systems get too, with the rows that the source has afterwards, and all versions of each row:
see beside_auto_cdc.py.

Headstream gets Replicate's messages, or Debezium's: there a column that is not sent has the placeholder, as a large column of
PostgreSQL; columns that a case omits are texts. The others get rows, prepared as well as their caller can: a change of key is a
deletion and an upsert, and columns that a message omits are null.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from headstream import connect
from headstream.replicate.codec import (
    Change,
    ColumnMetadata,
    Lineage,
    TableMetadata,
    data_message,
    data_schema,
    encode_mask,
    metadata_message,
)
from headstream.replicate.run.pipeline import ReplicatePipeline
from headstream.replicate.settings.config import ReplicateConfig
from headstream.replicate.settings.debezium_settings import DebeziumSettings
from headstream.replicate.settings.table_settings import TableRules, TableSettings

_KEY: Final = ColumnMetadata("id", 1, "INT4", primary_key_position=1)
_NAME: Final = ColumnMetadata("name", 2, "WSTRING", 20)
_NARROW: Final = (_KEY, _NAME, ColumnMetadata("price", 3, "INT4"))
_WIDE: Final = (_KEY, _NAME, ColumnMetadata("price", 3, "INT8"))
_MORE: Final = (*_NARROW, ColumnMetadata("place", 4, "WSTRING", 20))
_CONNECT: Final = {"INT4": "int32", "INT8": "int64"}
_PLACEHOLDER: Final = "__debezium_unavailable_value"
_ARROW: Final = {"INT4": pa.int32(), "INT8": pa.int64(), "WSTRING": pa.string()}
Row = dict[str, Any]
Version = tuple[Row, int, int | None]


@dataclass(frozen=True, slots=True)
class Event:
    """A change in the source.

    Args:
        at: Its place in the source's order.
        row: The row after it, or the columns of it that its message has; of a deletion, the key.
        verb: INSERT, UPDATE or DELETE.
        old_key: The row's key before it, where it changes the key.
        columns: The table's columns when it happened.
    """

    at: int
    row: Mapping[str, Any]
    verb: str = "UPDATE"
    old_key: int | None = None
    columns: tuple[ColumnMetadata, ...] = _NARROW


@dataclass(frozen=True, slots=True)
class Case:
    """A table's changes.

    Args:
        title: What is special about them.
        runs: What arrives in each run, in this order.
        rows: The source's rows at the end.
    """

    title: str
    runs: tuple[tuple[Event, ...], ...]
    rows: tuple[Row, ...]

    def columns(self, run: int) -> tuple[ColumnMetadata, ...]:
        """Return the newest columns up to a run."""
        return [event.columns for events in self.runs[: run + 1] for event in events][-1]

    @property
    def versions(self) -> list[Version]:
        """All versions that rows had in the source: the row, and from which change to which (None: it is current)."""
        events = {event.at: event for events in self.runs for event in events}
        found: list[Version] = []
        for at, event in sorted(events.items()):
            key = event.row["id"] if event.old_key is None else event.old_key
            ended = [place for place, (row, _, end) in enumerate(found) if row["id"] == key and end is None]
            old: Row = found[ended[0]][0] if ended else {}
            found = [(row, begin, at if place in ended else end) for place, (row, begin, end) in enumerate(found)]
            if event.verb != "DELETE":
                found.append((old | dict(event.row), at, None))
        return found


def _row(key: int, name: str, price: int | None) -> Row:
    return {"id": key, "name": name, "price": price}


_FIRST: Final = Event(1, _row(1, "a", 10), "INSERT")
_SECOND: Final = Event(3, _row(1, "b", 30))

CASES: Final = (
    Case("an older update arrives in a later run", ((_FIRST,), (_SECOND,), (Event(2, _row(1, "x", 20)),)), (_row(1, "b", 30),)),
    Case(
        "the changes of a key arrive in one run, not in order",
        ((_SECOND, _FIRST, Event(2, _row(1, "x", 20))),),
        (_row(1, "b", 30),),
    ),
    Case("the first changes are read again after the last", ((_FIRST,), (_SECOND,), (_FIRST,)), (_row(1, "b", 30),)),
    Case(
        "an older update arrives in a later run than the deletion",
        ((_FIRST,), (Event(3, {"id": 1}, "DELETE"),), (Event(2, _row(1, "x", 20)),)),
        (),
    ),
    Case("an update omits columns", ((_FIRST,), (Event(2, {"id": 1, "price": 20}),)), (_row(1, "a", 20),)),
    Case(
        "an older update that omits columns arrives in a later run",
        ((_FIRST,), (Event(3, {"id": 1, "name": "b"}),), (Event(2, {"id": 1, "price": 20}),)),
        (_row(1, "b", 20),),
    ),
    Case("a key changes", ((_FIRST,), (Event(2, _row(7, "b", 20), old_key=1),)), (_row(7, "b", 20),)),
    Case(
        "a key changes, and the message omits columns",
        ((_FIRST,), (Event(2, {"id": 7, "price": 20}, old_key=1),)),
        (_row(7, "a", 20),),
    ),
    Case(
        "a column becomes wider",
        ((_FIRST,), (Event(2, _row(1, "a", 1 << 40), columns=_WIDE),)),
        (_row(1, "a", 1 << 40),),
    ),
    Case(
        "a column is added",
        ((_FIRST,), (Event(2, _row(1, "a", 20) | {"place": "c"}, columns=_MORE),)),
        (_row(1, "a", 20) | {"place": "c"},),
    ),
)
RUNS: Final = max(len(case.runs) for case in CASES)


def plain_rows(events: Iterable[Event]) -> list[Row]:
    """Return changes as rows, in which `seq` is the order and `deleted` marks deletions."""
    found = []
    for event in events:
        if event.old_key is not None:
            found.append({"id": event.old_key, "seq": event.at, "deleted": True})
        found.append({**event.row, "seq": event.at, "deleted": event.verb == "DELETE"})
    return found


def plain_schema(columns: tuple[ColumnMetadata, ...]) -> pa.Schema:
    """Return the columns of such rows."""
    return pa.schema([(column.name, _ARROW[column.type]) for column in columns] + [("seq", pa.int64()), ("deleted", pa.bool_())])


def find_difference(case: Case, found: Iterable[Row]) -> str:
    """Return `right`, or what is in the table instead of the source's rows."""
    rows = sorted(map(_plain, found), key=lambda row: (row["id"], str(row)))
    if rows == list(case.rows):
        return "right"
    return "wrong: " + (", ".join("(" + ", ".join(map(str, row.values())) + ")" for row in rows) or "no row")


def find_wrong_versions(case: Case, found: Iterable[Row], begin: str, end: str) -> str:
    """Return `right`, or the versions that are in the table instead of the source's; `begin` and `end` are columns.

    A column that was added later is null in older versions. A version without duration is left out: a deletion before its row.
    """
    stored = [(_plain(row), int(row[begin]), None if row[end] is None else int(row[end])) for row in found]
    present = _sorted_versions(version for version in stored if version[1] != version[2])
    if present == _sorted_versions(case.versions):
        return "right"
    told = (f"({', '.join(map(str, row.values()))}) {since}-{'' if until is None else until}" for row, since, until in present)
    return "wrong: " + (", ".join(told) or "no version")


def _sorted_versions(versions: Iterable[Version]) -> list[Version]:
    """Return versions without columns that are null, in one order."""
    known = (({name: value for name, value in row.items() if value is not None}, since, until) for row, since, until in versions)
    return sorted(known, key=str)


def _plain(row: Row) -> Row:
    """Return the columns of a case, from a row of a table."""
    plain: Row = {name: row.get(name) for name in ("id", "name", "price", "place") if name in row}
    return plain | {"price": int(plain["price"])} if isinstance(plain["price"], str) else plain


def run_cases(spark: SparkSession, work: Path, *, debezium: bool = False, history: bool = False) -> list[str]:
    """Run all cases in a pipeline of Headstream, and return what became of each; `history` keeps all versions (type 2)."""
    url = (work / "log").as_uri()
    with connect(url) as log:
        log.create_topic("cdc/data", limits="wide")
        log.create_topic("cdc/metadata")
    config = ReplicateConfig(
        source=url,
        topics=("cdc/data",),
        metadata=() if debezium else ("cdc/metadata",),
        debezium=DebeziumSettings() if debezium else None,
        tables=work / "tables",
        checkpoint=work / "checkpoint",
        rules=TableRules(defaults=TableSettings(scd_type=2 if history else 1)),
        once=True,
    )
    known: dict[str, TableMetadata] = {}
    for run in range(RUNS):
        with connect(url) as log, log.producer("cdc/data") as data, log.producer("cdc/metadata") as metadata:
            for number, case in enumerate(CASES):
                for event in case.runs[run] if run < len(case.runs) else ():
                    if debezium:
                        for key, value, headers in _debezium_messages(number, case, event):
                            data.send(value, key=key, headers=headers)
                        continue
                    version = _version(number, event.columns)
                    if version.schema_id not in known:
                        known[version.schema_id] = version
                        metadata.send(metadata_message(version))
                    data.send(data_message(version, _change(event)))
        summary = ReplicatePipeline(spark, config).run()
        assert (summary.dead, summary.parked, summary.failing) == (0, 0, {}) or history, summary
    tables = [DeltaTable(str(work / f"tables/shop/case{number}")).to_pyarrow_table().to_pylist() for number in range(len(CASES))]
    if history:
        return [find_wrong_versions(*of_case, "_hs_valid_from", "_hs_valid_to") for of_case in zip(CASES, tables, strict=True)]
    return [find_difference(*of_case) for of_case in zip(CASES, tables, strict=True)]


def _debezium_messages(number: int, case: Case, event: Event) -> Iterator[tuple[bytes, bytes, dict[str, bytes]]]:
    """Yield key, value and headers of a change's messages: of a change of key a deletion and an insertion."""
    names = [column.name for column in event.columns]
    omitted = {name for each in sum(case.runs, ()) if each.verb != "DELETE" for name in names if name not in each.row}
    omitted -= {"place"}
    kinds = {c.name: "string" if c.name in omitted or c.type == "WSTRING" else _CONNECT[c.type] for c in event.columns}
    fields = [{"type": kind, "optional": True, "field": name} for name, kind in kinds.items()]
    row = {name: event.row.get(name, _PLACEHOLDER) for name in names}
    row = {name: str(value) if kinds[name] == "string" else value for name, value in row.items()}
    bare = dict.fromkeys(names) | {"id": event.row["id"] if event.old_key is None else event.old_key}
    source = {
        "connector": "postgresql",
        "name": "shop",
        "ts_ms": 1,
        "snapshot": "false",
        "schema": "shop",
        "table": f"case{number}",
    }
    source |= {"lsn": event.at * 10, "sequence": f'["{event.at * 10 - 1}","{event.at * 10}"]'}

    def message(operation: str, before: Row | None, after: Row | None) -> bytes:
        struct = {"type": "struct", "optional": True, "fields": fields}
        members = [{**struct, "field": "before"}, {**struct, "field": "after"}, {"type": "string", "field": "op"}]
        payload = {"before": before, "after": after, "source": source, "op": operation}
        return json.dumps({"schema": {"type": "struct", "fields": members}, "payload": payload}, separators=(",", ":")).encode()

    key, old = (json.dumps({"id": value}).encode() for value in (event.row["id"], bare["id"]))
    if event.verb == "DELETE" or event.old_key is not None:
        yield old, message("d", bare, None), {"__debezium.newkey": key} if event.old_key is not None else {}
    if event.verb != "DELETE":
        headers = {"__debezium.oldkey": old} if event.old_key is not None else {}
        yield key, message("u" if event.verb == "UPDATE" and not headers else "c", None, row), headers


def _version(number: int, columns: tuple[ColumnMetadata, ...]) -> TableMetadata:
    version = (_NARROW, _WIDE, _MORE).index(columns)
    lineage = Lineage("server", "task", "shop", f"case{number}", version + 1, "")
    return TableMetadata(f"{number * 10 + version:032X}", lineage, columns, data_schema(columns, logical_types=True))


def _change(event: Event) -> Change:
    present = [column.ordinal for column in event.columns if column.name in event.row]
    before = None if event.old_key is None else {"id": event.old_key}
    if event.verb == "DELETE":
        present = [column.ordinal for column in event.columns]
    return Change(
        event.verb,
        event.row,
        before,
        f"{event.at:035d}",
        "2023-03-21T21:34:19.511",
        column_mask=encode_mask(present),
        change_mask=encode_mask(present) if event.verb == "UPDATE" else None,
    )
