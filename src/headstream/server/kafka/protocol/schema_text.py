"""Parses the schema notation (see schema.py)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

_HEAD: Final = re.compile(r"(\w+) (request|response) key=(\d+) versions=(\d+)-(\d+)(?: flexible=(\d+)\+)?")
_FIELD: Final = re.compile(r"(\w+) (\[\])?(\w*)((?: [^ {}]+)*?)( \{)?")
_RANGE: Final = re.compile(r"(\d+)(\+|-(\d+))?")
_LAST: Final = 1 << 15


class Versions(NamedTuple):
    """The first and last version of a range."""

    first: int
    last: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last

    @classmethod
    def parse(cls, text: str) -> Versions:
        """Parse a range: `3`, `3-5` or `3+`."""
        found = _RANGE.fullmatch(text)
        if found is None:
            raise ValueError(f"{text!r} is not a range of versions")
        first = int(found[1])
        return cls(first, _LAST if found[2] == "+" else int(found[3] or first))


_ALL: Final = Versions(0, _LAST)


@dataclass(frozen=True, slots=True)
class KafkaField:
    """A field in all versions.

    Args:
        kind: bool, int8 to int64, string, bytes, uuid or records; empty or `struct` for a structure.
        is_array: Whether the field is an array of `kind`.
        nullable: The versions in which the field is nullable.
        default: The default value, if not 0, "" or empty.
    """

    name: str
    kind: str
    is_array: bool
    fields: tuple[KafkaField, ...]
    versions: Versions
    nullable: Versions | None
    tag: int | None
    default: Any


class Head(NamedTuple):
    """The first line of a schema, and the schema's fields."""

    name: str
    way: str
    api_key: int
    first_version: int
    last_version: int
    flexible_from: int | None
    fields: tuple[KafkaField, ...]


def parse_text(text: str) -> list[Head]:
    """Parse schemas in the notation of schema.py; ValueError for an invalid line."""
    found: list[Head] = []
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    at = 0
    while at < len(lines):
        head = _HEAD.fullmatch(lines[at])
        if head is None:
            raise ValueError(f"{lines[at]!r} does not begin a schema")
        fields, at = _parse_fields(lines, at + 1)
        name, way, key, first, last, flexible = head.groups()
        found.append(Head(name, way, int(key), int(first), int(last), None if flexible is None else int(flexible), fields))
    return found


def _parse_fields(lines: list[str], at: int) -> tuple[tuple[KafkaField, ...], int]:
    fields: list[KafkaField] = []
    while at < len(lines) and lines[at] != "}" and not _HEAD.fullmatch(lines[at]):
        line = _FIELD.fullmatch(lines[at])
        if line is None:
            raise ValueError(f"{lines[at]!r} is not a field")
        name, array, kind, rest, opens = line.groups()
        inner: tuple[KafkaField, ...] = ()
        at += 1
        if opens:
            inner, at = _parse_fields(lines, at)
            at += 1
        fields.append(_parse_field(name, kind, bool(array), inner, rest.split()))
    return tuple(fields), at


def _parse_field(name: str, kind: str, is_array: bool, fields: tuple[KafkaField, ...], words: list[str]) -> KafkaField:
    versions, nullable, tag, default = _ALL, None, None, None
    for word in words:
        if word.startswith("?"):
            nullable = Versions.parse(word[1:]) if len(word) > 1 else _ALL
        elif word.startswith("tag="):
            tag = int(word[4:])
        elif word.startswith("="):
            default = word == "=True" if kind == "bool" else int(word[1:])
        else:
            versions = Versions.parse(word)
    return KafkaField(name, kind, is_array, fields, versions, nullable, tag, default)
