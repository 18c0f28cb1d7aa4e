"""Avro schemas: what Replicate writes is read, whatever its tables are called; what has no end is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headstream.errors import SchemaError
from headstream.replicate.codec.avro.schema import MAX_DEPTH, MAX_PRECISION, AvroType, parse_schema


def parse(node: Any) -> AvroType:
    return parse_schema(json.dumps(node))


def record(name: str, *fields: tuple[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": key, "type": kind} for key, kind in fields], **more}


@pytest.mark.parametrize("kind", ["null", "boolean", "int", "long", "float", "double", "bytes", "string"])
@pytest.mark.parametrize("wrap", [lambda kind: kind, lambda kind: {"type": kind}, lambda kind: {"type": {"type": kind}}])
def test_parse_schema_reads_a_primitive_in_every_spelling(kind: str, wrap: Any) -> None:
    assert parse(wrap(kind)) == AvroType(kind)


def test_parse_schema_resolves_names_by_namespace_full_name_and_last_part() -> None:
    inner = record("Data", ("a", "int"), namespace="com.attunity.queue.msg.chips-qa.TSTDTA")
    found = parse(record("R", ("data", inner), ("full", "com.attunity.queue.msg.chips-qa.TSTDTA.Data"), ("short", "Data")))
    kinds = [field.type for field in found.fields]
    assert kinds[0] == kinds[1] == kinds[2]
    assert kinds[0].name == "com.attunity.queue.msg.chips-qa.TSTDTA.Data"


def test_parse_schema_inherits_the_namespace_around() -> None:
    found = parse(record("R", ("data", record("Data", ("a", "int"))), ("before", ["null", "S.T.Data"]), namespace="S.T"))
    assert found.fields[0].type.name == "S.T.Data"
    assert found.fields[1].type.branches[1] is found.fields[0].type


def test_parse_schema_takes_a_namespace_from_a_dotted_name() -> None:
    found = parse(record("S.T.R", ("a", {"type": "enum", "name": "E", "symbols": ["X"]}), ("b", "E")))
    assert [field.type.name for field in found.fields] == ["S.T.E", "S.T.E"]


@pytest.mark.parametrize("name", ["order date", "1st", "naïve", "a-b", "", "Größe/€"])
def test_parse_schema_takes_names_that_are_not_legal_in_avro(name: str) -> None:
    found = parse(record(name, (name, "int")))
    assert found.fields[0].name == name


def test_parse_schema_means_the_latest_definition_of_a_name_given_twice() -> None:
    first, second = record("Lineage", ("a", "int")), record("Lineage", ("b", "string"))
    other = record("Other", ("c", "int"))
    found = parse(record("M", ("x", first), ("y", other), ("z", second), ("ref", "Lineage"), ("far", "n.Lineage")))
    assert found.fields[0].type.fields[0].name == "a"
    assert found.fields[3].type.fields[0].name == "b"
    assert found.fields[4].type.fields[0].name == "b"


@pytest.mark.parametrize(
    ("node", "logical", "precision", "scale"),
    [
        ({"type": "int", "logicalType": "date"}, "date", 0, 0),
        ({"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 4}, "decimal", 20, 4),
        ({"type": "bytes", "logicalType": "decimal", "precision": 20}, "decimal", 20, 0),
        ({"type": "fixed", "name": "F", "size": 9, "logicalType": "decimal", "precision": 20}, "decimal", 20, 0),
        ({"type": "string", "logicalType": "date"}, None, 0, 0),
        ({"type": "int", "logicalType": "no-such-thing"}, None, 0, 0),
        ({"type": "int", "logicalType": 7}, None, 0, 0),
        ({"type": "bytes", "logicalType": "decimal"}, None, 0, 0),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 3}, None, 0, 0),
        ({"type": "bytes", "logicalType": "decimal", "precision": True}, None, 0, 0),
        ({"type": "bytes", "logicalType": "decimal", "precision": MAX_PRECISION + 1}, None, 0, 0),
    ],
)
def test_parse_schema_keeps_a_logical_type_where_it_fits(node: Any, logical: str | None, precision: int, scale: int) -> None:
    found = parse(node)
    assert (found.logical_type, found.precision, found.scale) == (logical, precision, scale)


@pytest.mark.parametrize(
    "node",
    [
        7,
        None,
        {},
        "nothing",
        {"type": "nothing"},
        [],
        ["null", ["int"]],
        {"type": "record", "fields": []},
        {"type": "record", "name": "R"},
        {"type": "record", "name": "R", "fields": [{"name": "a"}]},
        {"type": "record", "name": "R", "fields": ["a"]},
        {"type": "record", "name": "R", "fields": [{"name": 1, "type": "int"}]},
        {"type": "enum", "name": "E", "symbols": []},
        {"type": "enum", "name": "E", "symbols": [1]},
        {"type": "enum", "symbols": ["A"]},
        {"type": "fixed", "name": "F"},
        {"type": "fixed", "name": "F", "size": -1},
        {"type": "fixed", "name": "F", "size": True},
        {"type": "array"},
        {"type": "map", "values": "nothing"},
        record("R", ("a", ["null", "R"])),
    ],
)
def test_parse_schema_refuses_what_is_no_schema(node: Any) -> None:
    with pytest.raises(SchemaError):
        parse(node)


@pytest.mark.parametrize("text", ["", "{", "\ud800", "[" * 100_000, '{"type": ' * 50_000, "9" * 5000])
def test_parse_schema_refuses_what_is_no_json(text: str) -> None:
    with pytest.raises(SchemaError):
        parse_schema(text)


def test_parse_schema_refuses_too_many_levels() -> None:
    node: Any = "int"
    for _ in range(MAX_DEPTH):
        node = {"type": "array", "items": node}
    assert parse(node).kind == "array"
    with pytest.raises(SchemaError, match="levels"):
        parse({"type": "array", "items": node})


def test_parse_schema_refuses_references_that_multiply() -> None:
    fields: list[tuple[str, Any]] = [("f0", record("R0", ("a", "int")))]
    fields += [(f"f{i}", record(f"R{i}", ("a", f"R{i - 1}"), ("b", f"R{i - 1}"))) for i in range(1, 40)]
    with pytest.raises(SchemaError, match="types"):
        parse(record("Top", *fields))


def test_parse_schema_names_the_field_that_is_wrong() -> None:
    with pytest.raises(SchemaError, match=r"data\.a"):
        parse(record("R", ("data", record("Data", ("a", "integer")))))
