"""Our schemas of Kafka's protocol against those that another library has made of Kafka's own definitions."""

from __future__ import annotations

import importlib
import io
import uuid
from typing import Any

import pytest
from kio.serial import entity_reader, entity_writer

from headstream.server.kafka.apis import APIS
from headstream.server.kafka.protocol.schema import Schema
from headstream.server.kafka.protocol.schema_text import KafkaField

_VALUES: dict[str, Any] = {
    "bool": True, "int8": 7, "int16": 3, "int32": 77_777, "int64": 7_777_777_777, "string": "tést", "bytes": b"\0\xff",
    "uuid": uuid.UUID(int=77), "records": [b"rec", b"ords"],
}  # fmt: skip


def _value(field: KafkaField, version: int, *, has_nulls: bool) -> Any:
    """Return a value that no default is."""
    if has_nulls and field.nullable is not None and version in field.nullable:
        return None
    one = _values(field.fields, version, has_nulls=has_nulls) if field.fields else _VALUES[field.kind]
    return [one, one] if field.is_array else one


def _values(fields: tuple[KafkaField, ...], version: int, *, has_nulls: bool) -> dict[str, Any]:
    return {field.name: _value(field, version, has_nulls=has_nulls) for field in fields if version in field.versions}


def _joined(values: Any) -> Any:
    """Return values as decoding gives them: records in one piece."""
    if isinstance(values, dict):
        return {name: _joined(value) for name, value in values.items()}
    if values == _VALUES["records"]:
        return b"records"
    return [_joined(value) for value in values] if isinstance(values, list) else values


def _schemas() -> list[Any]:
    return [
        pytest.param(schema, way, version, id=f"{api.name}-{way}-{version}")
        for api in APIS.values()
        for way, schema in (("request", api.request), ("response", api.response))
        for version in range(schema.first_version, schema.last_version + 1)
    ]


@pytest.mark.parametrize(("schema", "way", "version"), _schemas())
@pytest.mark.parametrize("has_nulls", [False, True])
def test_schema_spells_what_another_library_does_when_every_field_is_given(
    schema: Schema, way: str, version: int, has_nulls: bool
) -> None:
    values = _values(schema.fields, version, has_nulls=has_nulls)
    spelled = b"".join(bytes(piece) for piece in schema.encode(version, values))
    module = importlib.import_module(f"kio.schema.{schema.name}.v{version}.{way}")
    name = "".join(word.capitalize() for word in schema.name.split("_")) + way.capitalize()
    entity_type = getattr(module, name)
    entity, size = entity_reader(entity_type)(spelled, 0)
    again = io.BytesIO()
    entity_writer(entity_type)(again, entity)
    assert size == len(spelled)
    assert again.getvalue() == spelled
    assert schema.decode(version, spelled) == _joined(values)
