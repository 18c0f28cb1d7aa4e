"""Fields of records: what each is called, how it is spelled, and what it is when JSON leaves it out."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from headstream.errors import DecodeError
from headstream.wire.shapes import Default, Json, Shape

__all__ = ["Field", "fields_of", "read_member"]

_MISSING: Final = object()


class Field(NamedTuple):
    """One field: its name here and in JSON, its shape, and what it is when JSON leaves it out (or that it may not)."""

    name: str
    json_name: str
    shape: Shape
    default: Any

    @property
    def label(self) -> str:
        """What errors call it."""
        return self.name.replace("_", " ")

    @property
    def place(self) -> str:
        """What stands for it in the path of a route."""
        return "{" + self.json_name + "}"

    @property
    def has_default(self) -> bool:
        """Whether it has a value when JSON leaves it out."""
        return self.default is not _MISSING

    @property
    def is_needed(self) -> bool:
        """Whether JSON may not leave it out."""
        return not self.has_default and not self.shape.is_optional


_FIELDS: Final[dict[type[Any], tuple[Field, ...]]] = {}


def fields_of(kind: type[Any]) -> tuple[Field, ...]:
    """Return the fields of a dataclass that travel, in their order."""
    fields = _FIELDS.get(kind)
    if fields is None:
        fields = _FIELDS[kind] = _find_fields(kind)
    return fields


def _find_fields(kind: type[Any]) -> tuple[Field, ...]:
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
        found.append(Field(field.name, name, shape, default))
    return tuple(found)


def read_member(field: Field, members: Mapping[str, Any], where: str) -> Any:
    """Return the value of a field out of a JSON object."""
    place = f"{where}.{field.json_name}"
    spelled = members.get(field.json_name)
    if spelled is None:
        if field.has_default:
            return field.default
        if field.json_name not in members and field.is_needed:
            raise DecodeError(f"{field.json_name} is missing", 0, where=place)
    return field.shape.read(spelled, place)
