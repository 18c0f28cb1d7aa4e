"""Checks: validates argument types; errors name the accepted types."""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, TypeVar

from headstream.client.arguments import ConsumerOptions, TopicOptionsInput
from headstream.core.model.topology import check_kafka_headers
from headstream.errors import InvalidInputError, InvalidOptionError

_T = TypeVar("_T")


def milliseconds(name: str, value: object) -> float:
    """Convert milliseconds or a timedelta to milliseconds; InvalidInputError, which names the argument, for other types."""
    return _count_units(name, value, timedelta(milliseconds=1), "milliseconds")


def seconds(name: str, value: object) -> float:
    """Convert seconds or a timedelta to seconds; InvalidInputError, which names the argument, for other types."""
    return _count_units(name, value, timedelta(seconds=1), "seconds")


def _count_units(name: str, value: object, unit: timedelta, unit_name: str) -> float:
    if isinstance(value, timedelta):
        return value / unit
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidInputError(f"{name} must be a number of {unit_name} or a timedelta, not {value!r}")
    return value


def check_whole(name: str, value: object) -> int:
    """Return the value if it is a whole number; InvalidInputError, which names the argument, if not."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInputError(f"{name} must be an integer, not {value!r}")
    return value


def check_text(name: str, value: object) -> str:
    """Return the value if it is a string; InvalidInputError, which names the argument, if not."""
    if not isinstance(value, str):
        raise InvalidInputError(f"{name} must be a string, not {value!r}")
    return value


def check_function(name: str, value: object) -> None:
    """Check that a value is callable; InvalidInputError, which names the argument, if not."""
    if not callable(value):
        raise InvalidInputError(f"{name} must be a function, not {value!r}")


def check_many(name: str, values: Iterable[_T]) -> Iterable[_T]:
    """Return the values if they are an iterable; InvalidInputError if not, or if the argument is a single payload or string."""
    if isinstance(values, (bytes, bytearray, memoryview, str)) or not isinstance(values, Iterable):
        raise InvalidInputError(f"{name} must be a list, even for one item, not {reprlib.repr(values)}")
    return values


def check_consumer_options(options: ConsumerOptions) -> ConsumerOptions:
    """Check a consumer's options; convert durations to milliseconds; InvalidOptionError, InvalidInputError."""
    _check_names(options, ConsumerOptions.__annotations__, "a consumer")
    found: ConsumerOptions = {**options}
    for group in (options.get("group"), options.get("name")):
        if group is not None:
            check_text("the group or name of a consumer", group)
    if (partitions := options.get("partitions")) is not None:
        found["partitions"] = [check_whole("a partition", number) for number in check_many("partitions", partitions)]
    for name in ("on_assigned", "on_revoked"):
        if options.get(name) is not None:
            check_function(name, options[name])
    if (timeout_ms := options.get("timeout_ms")) is not None:
        found["timeout_ms"] = milliseconds("timeout_ms", timeout_ms)
    if "session_timeout_ms" in options:
        found["session_timeout_ms"] = milliseconds("session_timeout_ms", options["session_timeout_ms"])
    return found


def check_topic_options(options: TopicOptionsInput) -> dict[str, Any]:
    """Check a topic's options; convert durations to microseconds and names to a string; InvalidOptionError, InvalidInputError."""
    _check_names(options, TopicOptionsInput.__annotations__, "a topic")
    found: dict[str, Any] = {}
    for name, value in options.items():
        if name == "summary_headers":
            found[name] = _join_names(value)
            continue
        if name == "kafka_headers":
            check_kafka_headers(value)
            found[name] = value
            continue
        if name.endswith("_us") and isinstance(value, timedelta):
            value = value // timedelta(microseconds=1)
        if name == "legal_hold" and isinstance(value, bool):
            value = int(value)
        found[name] = None if value is None else check_whole(name, value)
    return found


def _join_names(names: object) -> str | None:
    if names is None or isinstance(names, str):
        return names
    listed = list(names) if isinstance(names, Iterable) else [names]
    texts = [name for name in listed if isinstance(name, str)]
    if len(texts) < len(listed):
        raise InvalidInputError(f"summary_headers must be header names, such as 'tenant,user_id', not {names!r}")
    return ",".join(texts)


def _check_names(options: Mapping[str, Any], known: Iterable[str], noun: str) -> None:
    names = list(known)
    for name in options:
        if name not in names:
            close = difflib.get_close_matches(name, names, n=1)
            advice = f"Did you mean {close[0]}?" if close else f"Use one of {', '.join(names)}"
            raise InvalidOptionError(f"{noun} has no option {name!r}", advice=advice)


def check_names(names: object) -> list[str]:
    """Return the value if it is a list of topic names; InvalidInputError if not."""
    if not isinstance(names, Iterable):
        raise InvalidInputError(f"the topic must be a name such as shop/orders, or a list of names, not {names!r}")
    return [check_text("a topic", name) for name in names]
