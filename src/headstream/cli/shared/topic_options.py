"""The options of `topic create` and `topic update`, and the syntax of their values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar, get_args

import click

from headstream.cli.shared.parameters import Checked
from headstream.core.model.quantities import DURATION_UNITS_US, SIZE_UNITS, parse_duration_us, parse_size_bytes
from headstream.core.model.topology import KafkaHeaders, Topic, check_kafka_headers, split_header_names
from headstream.errors import InvalidInputError

_Function = TypeVar("_Function", bound=Callable[..., Any])
_AGE_UNITS_US: Final = {name: DURATION_UNITS_US[name] for name in ("s", "m", "h", "d")}


def parse_age_us(text: str) -> int | None:
    """Convert a duration such as `90s` or `12h` to microseconds, and `forever` to None; InvalidInputError if it is invalid."""
    return None if text.strip().lower() == "forever" else _read_age_us(text, "forever")


def parse_compaction_us(text: str) -> int | None:
    """Convert a duration such as `30m` or `12h` to microseconds, and `none` to None; InvalidInputError if it is invalid."""
    return None if text.strip().lower() == "none" else _read_age_us(text, "none")


def _read_age_us(text: str, none: str) -> int:
    try:
        return parse_duration_us(text)
    except InvalidInputError:
        raise InvalidInputError(f"{text!r} is not an age", advice=f"Write an age such as 12h or 7d, or {none}") from None


def parse_hold(text: str) -> bool:
    """Convert `on` to True and `off` to False; InvalidInputError for other values."""
    if text.strip().lower() not in ("on", "off"):
        raise InvalidInputError(f"the value must be on or off, not {text!r}")
    return text.strip().lower() == "on"


def parse_topic_size(text: str) -> int | None:
    """Convert a size such as `500MB` or `10 GiB` to bytes, and `unlimited` to None; InvalidInputError if it is invalid."""
    if text.strip().lower() == "unlimited":
        return None
    try:
        return parse_size_bytes(text)
    except InvalidInputError:
        raise InvalidInputError(
            f"{text!r} is not a size", advice="Write a size such as 500MB, 10GB or 64 MiB, a number of bytes, or unlimited"
        ) from None


def parse_deduplication(text: str) -> int | None:
    """Convert a decimal number to an int, and `none` to None; InvalidInputError if it is invalid."""
    if text.strip().lower() == "none":
        return None
    if not text.strip().isdecimal():
        raise InvalidInputError(
            f"{text!r} is not a number of ids", advice="Write the number of remembered ids, for example 100000, or none"
        )
    return int(text)


def parse_header_names(text: str) -> str | None:
    """Return a checked list of header names, separated by commas, or None for `none`; InvalidOptionError if it is invalid."""
    return None if text.strip().lower() == "none" else ",".join(split_header_names(text))


def parse_kafka_headers(text: str) -> str:
    """Return the name of a convention; InvalidOptionError if it is unknown."""
    check_kafka_headers(text)
    return text


_OPTIONS: Final[tuple[tuple[str, str, Checked, str, str], ...]] = (
    (
        "--retention",
        "retention_us",
        Checked("age", parse_age_us),
        "forever",
        "Age after which messages can be dropped, for example 12h or 7d; forever disables this limit.",
    ),
    (
        "--retention-bytes",
        "retention_bytes",
        Checked("size", parse_topic_size),
        "unlimited",
        "Size of the topic above which the oldest messages can be dropped, for example 500MB or 10GB; unlimited: no limit.",
    ),
    (
        "--compaction",
        "compaction_delay_us",
        Checked("age", parse_compaction_us),
        "none",
        "Retain only the last message of each key; every message then needs a key. A null payload (with --limits wide) deletes "
        "its key. The value is the age at which null payloads are removed, for example 1d or 0s; none disables compaction.",
    ),
    (
        "--deduplication",
        "deduplication_count",
        Checked("count", parse_deduplication),
        "none",
        "Number of newest messages per partition whose ids are remembered to drop duplicates, for example 100000.",
    ),
    (
        "--summary-headers",
        "summary_headers",
        Checked("names", parse_header_names),
        "none",
        "Headers (at most 8) whose values are summarized per segment so that --where can skip segments, for example "
        "tenant,user_id; none disables summaries.",
    ),
    (
        "--deletion-grace",
        "deletion_grace_us",
        Checked("age", parse_age_us),
        "7d",
        "Time for which messages marked for deletion are kept on disk and can be restored, for example 7d or 0s; "
        "with forever, they are never removed.",
    ),
    (
        "--legal-hold",
        "legal_hold",
        Checked("on|off", parse_hold),
        "off",
        "Keep all messages: retention, compaction, deletion marks, erase, purge and delete remove nothing.",
    ),
    (
        "--kafka-headers",
        "kafka_headers",
        Checked("convention", parse_kafka_headers),
        "headstream",
        f"Convention by which Kafka clients write and read headers: {', '.join(get_args(KafkaHeaders))}.",
    ),
)


def format_options(topic: Topic) -> dict[str, str]:
    """Format the options that a topic has set, in the form of the command line."""
    units = dict.fromkeys(("retention_us", "compaction_delay_us", "deletion_grace_us"), _AGE_UNITS_US)
    units["retention_bytes"] = SIZE_UNITS
    values = {option: (name, getattr(topic, name)) for option, name, *_ in _OPTIONS}
    return {
        option.removeprefix("--").replace("-", "_"): _format_value(value, units.get(name, {}))
        for option, (name, value) in values.items()
        if value is not None
    }


def _format_value(value: int | str, units: dict[str, int]) -> str:
    """Format an option's value; a number is shown in the largest unit of which it is a multiple."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "on" if value else "off"
    for unit, size in reversed(units.items()):
        if value % size == 0:
            return f"{value // size}{unit}"
    return f"{value}us" if units is _AGE_UNITS_US else str(value)


def creating_options(function: _Function) -> _Function:
    """Add the options for creating a topic."""
    for option, name, kind, default, text in reversed(_OPTIONS):
        function = click.option(option, name, type=kind, default=default, show_default=True, help=text)(function)
    return function


def changing_options(function: _Function) -> _Function:
    """Add the options that can be changed; the command receives only the options that are set."""

    def take_over(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        if param.name is not None and ctx.get_parameter_source(param.name) is not click.core.ParameterSource.DEFAULT:
            ctx.params[param.name] = value

    for option, name, kind, _, text in reversed(_OPTIONS):
        function = click.option(option, name, type=kind, expose_value=False, callback=take_over, help=text)(function)
    return function
