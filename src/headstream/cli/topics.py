"""`headstream topic`: list, show, create, update, delete, purge."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from headstream.cli.output import format_time, print_object, print_objects, print_text
from headstream.cli.parameters import Checked, open_log, output_option, topic_argument, url_option
from headstream.errors import InvalidInputError
from headstream.model.identifiers import check_name
from headstream.model.topology import MAX_PARTITIONS, Fsync, Limits

if TYPE_CHECKING:
    from headstream.model.topology import Topic

__all__ = ["topic"]

_COLUMNS = ("name", "id", "limits", "partitions", "messages", "size_bytes", "created")
_PARTITION_COLUMNS = ("partition", "first_offset", "end_offset", "size_bytes")


_UNITS_US = {"s": 10**6, "m": 60 * 10**6, "h": 3600 * 10**6, "d": 86400 * 10**6}
_UNITS_BYTES = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def parse_age_us(text: str) -> int | None:
    """Return the microseconds that `90s`, `30m`, `12h` or `7d` spells, or None for `forever`.

    Raises:
        InvalidInputError: it is none of these.
    """
    if text.strip().lower() == "forever":
        return None
    match = re.fullmatch(r"\s*(\d+)\s*([smhd])\s*", text)
    if match is None:
        raise InvalidInputError(f"{text!r} is not an age", advice="Write 90s, 30m, 12h, 7d or forever")
    return int(match[1]) * _UNITS_US[match[2]]


def parse_size_bytes(text: str) -> int | None:
    """Return the bytes that `500MB` or `10GB` spells, powers of ten, or None for `unlimited`.

    Raises:
        InvalidInputError: it is none of these.
    """
    if text.strip().lower() == "unlimited":
        return None
    match = re.fullmatch(r"\s*(\d+)\s*([KMGT]?B|)\s*", text, re.IGNORECASE)
    if match is None:
        raise InvalidInputError(f"{text!r} is not a size", advice="Write 500MB, 10GB, a number of bytes, or unlimited")
    return int(match[1]) * _UNITS_BYTES[match[2].upper()]


def _retention_options(function: Callable[..., None]) -> Callable[..., None]:
    for option in (
        click.option(
            "--retention-bytes",
            type=Checked("size", parse_size_bytes),
            default="unlimited",
            show_default=True,
            help="With more than this, the oldest messages may be dropped: 500MB, 10GB.",
        ),
        click.option(
            "--retention",
            "retention_us",
            type=Checked("age", parse_age_us),
            default="forever",
            show_default=True,
            help="Messages older than this may be dropped: 12h, 7d.",
        ),
    ):
        function = option(function)
    return function


@click.group()
def topic() -> None:
    """Topics: messages in partitions, named stream/topic.

    \b
    Examples:
      headstream topic create shop/orders --partitions 4
      headstream topic list
      headstream topic show shop/orders --output json
    """


@topic.command("list")
@click.argument("stream", required=False, type=Checked("stream", lambda text: check_name(text, "stream")))
@url_option
@output_option
def list_topics(stream: str | None, url: str, output: str) -> None:
    """Show the topics of STREAM, or of all streams.

    \b
    Examples:
      headstream topic list
      headstream topic list shop --output jsonl
    """
    with open_log(url) as log:
        found = log.topics(stream)
    print_objects([_summarize(each) if output == "table" else _describe(each) for each in found], _COLUMNS, output)


@topic.command()
@topic_argument
@url_option
@output_option
def show(topic: str, url: str, output: str) -> None:
    """Show one topic and its partitions.

    \b
    Example:
      headstream topic show shop/orders
    """
    with open_log(url) as log:
        found = log.topic(topic)
    _print(found, output)


@topic.command()
@topic_argument
@click.option("--partitions", type=click.IntRange(1, MAX_PARTITIONS), default=1, show_default=True, help="How many partitions.")
@click.option(
    "--limits",
    type=click.Choice([limits.value for limits in Limits]),
    default=Limits.IGGY.value,
    show_default=True,
    help="What its messages may be: what any Iggy client can read, or also empty and null payloads and long header values.",
)
@click.option(
    "--fsync",
    type=click.Choice([policy.value for policy in Fsync]),
    default=Fsync.INTERVAL.value,
    show_default=True,
    help="When acknowledged messages are on the disk itself: before that, within a second, or when the system pleases.",
)
@_retention_options
@click.option("--if-not-exists", is_flag=True, help="Leave a topic of that name as it is.")
@url_option
@output_option
def create(
    topic: str,
    partitions: int,
    limits: str,
    fsync: str,
    retention_us: int | None,
    retention_bytes: int | None,
    if_not_exists: bool,
    url: str,
    output: str,
) -> None:
    """Make a topic, and its stream where there is none.

    \b
    Examples:
      headstream topic create shop/orders --partitions 4
      headstream topic create cdc/raw --limits wide --if-not-exists
      headstream topic create bank/transfers --fsync always
      headstream topic create web/clicks --retention 7d --retention-bytes 10GB
    """
    with open_log(url) as log:
        made = log.create_topic(topic, partitions, limits=limits, fsync=fsync, if_not_exists=if_not_exists)
        if retention_us is not None or retention_bytes is not None:
            made = log.update_topic(topic, retention_us=retention_us, retention_bytes=retention_bytes)
    _print(made, output)


@topic.command()
@topic_argument
@_retention_options
@url_option
@output_option
def update(topic: str, retention_us: int | None, retention_bytes: int | None, url: str, output: str) -> None:
    """Say how long and how much a topic keeps; what is left out has no end.

    \b
    Examples:
      headstream topic update web/clicks --retention 7d --retention-bytes 10GB
      headstream topic update web/clicks
    """
    with open_log(url) as log:
        changed = log.update_topic(topic, retention_us=retention_us, retention_bytes=retention_bytes)
    _print(changed, output)


@topic.command()
@topic_argument
@url_option
@output_option
def delete(topic: str, url: str, output: str) -> None:
    """Delete a topic with all its messages, at once and for good.

    \b
    Example:
      headstream topic delete shop/orders
    """
    with open_log(url) as log:
        log.delete_topic(topic)
    print_object({"deleted": topic}, output)


@topic.command()
@topic_argument
@url_option
@output_option
def purge(topic: str, url: str, output: str) -> None:
    """Remove all messages of a topic and all offsets committed in it, at once and for good.

    \b
    Example:
      headstream topic purge shop/orders
    """
    with open_log(url) as log:
        log.purge_topic(topic)
    print_object({"purged": topic}, output)


def _print(found: Topic, form: str) -> None:
    if form != "table":
        print_object(_describe(found), form)
        return
    print_object(_summarize(found), form)
    print_text("")
    rows = [{**asdict(partition), "partition": partition.number} for partition in found.partitions]
    print_objects(rows, _PARTITION_COLUMNS, form)


def _summarize(found: Topic) -> dict[str, Any]:
    return {
        "name": found.full_name,
        "id": found.id,
        "limits": found.limits.value,
        "fsync": found.fsync.value,
        "partitions": len(found.partitions),
        "messages": found.messages_count,
        "size_bytes": found.size_bytes,
        "created": format_time(found.created_us),
    }


def _describe(found: Topic) -> dict[str, Any]:
    return {
        "name": found.full_name,
        "id": found.id,
        "limits": found.limits.value,
        "fsync": found.fsync.value,
        "retention_us": found.retention_us,
        "retention_bytes": found.retention_bytes,
        "created_us": found.created_us,
        "messages": found.messages_count,
        "size_bytes": found.size_bytes,
        "partitions": [
            {
                "partition": partition.number,
                "first_offset": partition.first_offset,
                "end_offset": partition.end_offset,
                "size_bytes": partition.size_bytes,
            }
            for partition in found.partitions
        ],
    }
