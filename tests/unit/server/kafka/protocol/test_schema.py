"""Our schemas of Kafka's protocol against those that another library has made of Kafka's own definitions."""

from __future__ import annotations

import importlib
import io
import struct
import uuid
from typing import Any

import pytest
from kio.serial import entity_reader, entity_writer

from headstream.errors import DecodeError
from headstream.server.kafka.apis import APIS
from headstream.server.kafka.protocol.schema import MAX_ELEMENTS, Schema, parse_schemas
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


@pytest.mark.parametrize(("schema", "way", "version"), _schemas())
def test_schema_refuses_every_cut_when_a_message_is_not_whole(schema: Schema, way: str, version: int) -> None:
    spelled = b"".join(bytes(piece) for piece in schema.encode(version, _values(schema.fields, version, has_nulls=False)))
    for end in range(len(spelled)):
        with pytest.raises(DecodeError):
            schema.decode(version, spelled[:end])


_LISTS = parse_schemas(
    """
lists request key=99 versions=0-1 flexible=1+
  names []string
  things [] {
    inner [] {
      number int8
    }
  }
"""
)["lists", "request"]


@pytest.mark.parametrize("count", [-2, -1, 5, 1 << 20, (1 << 31) - 1])
def test_schema_refuses_an_array_when_it_says_more_than_is_there(count: int) -> None:
    with pytest.raises(DecodeError):
        _LISTS.decode(0, struct.pack(">i", count) + b"\0\1a")


@pytest.mark.parametrize("spelled", [b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\xff\xff", b"\xff", b"\0", b"\1\1\5\5\0\0"])
def test_schema_refuses_a_flexible_message_when_its_varints_are_hostile(spelled: bytes) -> None:
    with pytest.raises(DecodeError):
        _LISTS.decode(1, spelled)


def test_schema_refuses_a_message_when_all_its_arrays_have_too_many_elements() -> None:
    half = MAX_ELEMENTS // 2 + 1
    spelled = struct.pack(">ii", 0, 2) + 2 * (struct.pack(">i", half) + bytes(half))
    with pytest.raises(DecodeError, match="more elements"):
        _LISTS.decode(0, spelled)


def test_schema_passes_unknown_tagged_fields_over_when_a_message_has_some() -> None:
    assert _LISTS.decode(1, b"\1\1\1\7\3abc") == {"names": [], "things": []}
