"""The field kinds of Kafka's messages: number layouts and defaults."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final

from headstream.server.kafka.protocol.schema_text import KafkaField

NUMBERS: Final = {"bool": "?", "int8": "b", "int16": "h", "int32": "i", "int64": "q"}
"""Kind -> its code in the module struct."""

_ZERO: Final = uuid.UUID(int=0)


def is_number(field: KafkaField) -> bool:
    """Return whether a field is one number."""
    return field.kind in NUMBERS and not field.is_array


def number_runs(fields: Sequence[KafkaField]) -> Iterator[list[KafkaField]]:
    """Yield fields in order: neighbouring numbers as one group, every other field singly."""
    for is_run, run in groupby(fields, is_number):
        if is_run:
            yield list(run)
        else:
            yield from ([field] for field in run)


def default_of(field: KafkaField, version: int) -> Any:
    """Return the value of a missing field."""
    is_nullable = field.nullable is not None and version in field.nullable
    if field.is_array:
        return None if is_nullable else []
    if field.default is not None:
        return field.default
    if field.kind in NUMBERS:
        return 0
    if field.kind == "uuid":
        return _ZERO
    if is_nullable:
        return None
    return "" if field.kind == "string" else b""
