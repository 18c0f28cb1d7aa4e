"""The names, shapes and defaults of record fields."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from headstream.core.wire.shapes import Default, Json, Shape
from headstream.errors import DecodeError

_MISSING: Final = object()


class RecordField(NamedTuple):
    """One field: its name in Python and in JSON, its shape, and its default if JSON omits the field (_MISSING: required)."""

    name: str
    json_name: str
    shape: Shape
    default: Any

    @property
    def label(self) -> str:
        """The field's name in errors."""
        return self.name.replace("_", " ")

    @property
    def placeholder(self) -> str:
        """The placeholder of the field in the path of a route."""
        return "{" + self.json_name + "}"

    @property
    def has_default(self) -> bool:
        """Whether the field has a value if JSON omits it."""
        return self.default is not _MISSING

    @property
    def is_needed(self) -> bool:
        """Whether JSON must contain the field."""
        return not self.has_default and not self.shape.is_optional


_FIELDS: Final[dict[type[Any], tuple[RecordField, ...]]] = {}


def fields_of(kind: type[Any]) -> tuple[RecordField, ...]:
    """Return the encoded fields of a dataclass, in order."""
    fields = _FIELDS.get(kind)
    if fields is None:
        fields = _FIELDS[kind] = _find_fields(kind)
    return fields


def _find_fields(kind: type[Any]) -> tuple[RecordField, ...]:
    hints = typing.get_type_hints(kind, include_extras=True)
    found = []
    for field in dataclasses.fields(kind):
        notes = getattr(hints[field.name], "__metadata__", ())
        shape = next((note for note in notes if isinstance(note, Shape)), None)
        if shape is None:
            continue
        name = next((note.name for note in notes if isinstance(note, Json)), field.name)
        default = _MISSING if field.default is dataclasses.MISSING else field.default
        default = next((note.value for note in notes if isinstance(note, Default)), default)
        found.append(RecordField(field.name, name, shape, default))
    return tuple(found)


def read_member(field: RecordField, members: Mapping[str, Any], where: str) -> Any:
    """Read the value of a field from a JSON object."""
    place = f"{where}.{field.json_name}"
    json_value = members.get(field.json_name)
    if json_value is None:
        if field.has_default:
            return field.default
        if field.json_name not in members and field.is_needed:
            raise DecodeError(f"{field.json_name} is missing", 0, where=place)
    return field.shape.from_json_value(json_value, place)
