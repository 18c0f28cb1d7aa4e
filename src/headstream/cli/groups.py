"""`headstream group`: list, show, message, create, lag, seek, delete."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from headstream.cli.shared.confirmation import confirm, yes_option
from headstream.cli.shared.delivery_output import ATTEMPT_COLUMNS, COUNT_COLUMNS, describe_deliveries, describe_history
from headstream.cli.shared.output import print_object, print_objects, print_text
from headstream.cli.shared.parameters import (
    PARTITION,
    Checked,
    complete_names,
    open_log,
    output_option,
    start_parameter,
    topic_argument,
    url_option,
)
from headstream.core.model.polling import OffsetOwner
from headstream.errors import AlreadyExistsError, UnsupportedError

if TYPE_CHECKING:
    from headstream.core.model.groups import Group
    from headstream.core.model.polling import PollingStrategy

_COLUMNS = ("partition", "committed", "first_offset", "end_offset", "lag", "member")

_group_argument = click.argument(
    "name",
    metavar="GROUP",
    type=Checked("group", lambda text: OffsetOwner.group(text).name),
    shell_complete=complete_names(lambda log, ctx: [found.name for found in log.groups(ctx.params["topic"])]),
)


@click.group()
def group() -> None:
    """Manage the consumer groups of a topic: their progress and committed offsets.

    A group exists from its creation or its first commit. On a server, all consumers of a group share the topic's
    partitions. In a directory, only the consumers of one process share the partitions; consumers of the group in
    other processes wait until that process has closed its consumers.

    \b
    Examples:
      headstream group list shop/orders
      headstream group lag shop/orders billing
      headstream group message shop/orders billing 1 17
      headstream group seek shop/orders billing first
    """


@group.command("list")
@topic_argument
@url_option
@output_option
def list_groups(topic: str, url: str, output: str) -> None:
    """List the consumer groups of TOPIC.

    \b
    Example:
      headstream group list shop/orders --output json
    """
    with open_log(url) as log:
        rows = [_summary(found) for found in log.groups(topic)]
    print_objects(rows, ("group", "lag", "process"), output)


@group.command()
@topic_argument
@_group_argument
@url_option
@output_option
def show(topic: str, name: str, url: str, output: str) -> None:
    """Show one consumer group of TOPIC: the reading process, the messages by status, and whether the group is paused.

    A message is pending until its first attempt, then leased (in progress), delayed (failed, to be retried), deferred (delivered
    only on request), done, or poisoned (failed permanently). open_letters counts the dead letters of the newest 100 poisoned
    messages per partition, without redriven and discarded dead letters.

    \b
    Example:
      headstream group show shop/orders billing
    """
    with open_log(url) as log:
        found = log.group(topic, name)
        deliveries = None
        with suppress(UnsupportedError):  # Kafka does not store the state of single messages
            deliveries = describe_deliveries(log.group_deliveries(topic, name), output)
    members = {**_summary(found)}
    if output != "table":
        print_object({**members, "partitions": _partitions(found), "deliveries": deliveries}, output)
        return
    counts = [] if deliveries is None else deliveries.pop("partitions")
    print_object(members | (deliveries or {}), output)
    print_text("")
    print_objects(_partitions(found), _COLUMNS, output)
    if counts:
        print_text("")
        print_objects(counts, COUNT_COLUMNS, output)


@group.command()
@topic_argument
@_group_argument
@click.argument("partition", type=PARTITION)
@click.argument("offset", type=click.IntRange(0))
@url_option
@output_option
def message(topic: str, name: str, partition: int, offset: int, url: str, output: str) -> None:
    """Show the delivery history of a message of TOPIC, by PARTITION and OFFSET: its attempts in a group, and the next step.

    The last 5 failed attempts of a message are kept, with time, worker and error. Of permanently failed messages, the newest
    100 per partition are kept.

    \b
    Example:
      headstream group message shop/orders billing 1 17
    """
    with open_log(url) as log:
        found = log.message_story(topic, name, partition, offset)
    members = describe_history(found, output)
    if output != "table":
        print_object(members, output)
        return
    attempts = members.pop("attempts")
    print_object({key: value for key, value in members.items() if value not in ("", None)}, output)
    if attempts:
        print_text("")
        print_objects(attempts, ATTEMPT_COLUMNS, output)


@group.command()
@topic_argument
@_group_argument
@click.option(
    "--at",
    type=start_parameter("first", "last"),
    default="first",
    show_default=True,
    help="Start of the group: an offset, a time, first or last.",
)
@url_option
@output_option
def create(topic: str, name: str, at: PollingStrategy, url: str, output: str) -> None:
    """Create a group of TOPIC that starts at the position given by --at.

    A group that starts at `first` need not be created: its first consumer creates it. On a server, Iggy clients can also join the
    group.

    \b
    Examples:
      headstream group create shop/orders billing
      headstream group create shop/orders audit --at last
    """
    with open_log(url) as log:
        if any(found.name == name for found in log.groups(topic)):
            raise AlreadyExistsError(
                f"the group {name!r} already exists", where=topic, advice="Use `group seek` to move the group's offsets"
            )
        print_object(_summary(log.seek_group(topic, name, at)), output)


@group.command()
@topic_argument
@_group_argument
@url_option
@output_option
def lag(topic: str, name: str, url: str, output: str) -> None:
    """Show the number of messages that a group of TOPIC has left to read, by partition.

    \b
    Example:
      headstream group lag shop/orders billing
    """
    with open_log(url) as log:
        found = log.group(topic, name)
    rows = _partitions(found)
    if output == "table":  # JSON has one object per partition; `group show` has the sum
        rows = [*rows, dict.fromkeys(_COLUMNS, "") | {"partition": "total", "lag": found.lag}]
    print_objects(rows, _COLUMNS, output)


@group.command()
@topic_argument
@_group_argument
@click.argument("to", type=start_parameter("first", "last"))
@click.option(
    "--partition", "partitions", type=click.IntRange(1), multiple=True, help="Partition, from 1; repeatable. [default: all]"
)
@url_option
@output_option
def seek(topic: str, name: str, to: PollingStrategy, partitions: tuple[int, ...], url: str, output: str) -> None:
    """Make a group of TOPIC continue at TO: an offset, a time, first, or last (new messages only).

    The group is created if it does not exist. Close the group's consumers first: otherwise their commits overwrite this position.

    \b
    Examples:
      headstream group seek shop/orders billing 2026-01-31T12:00:00Z
      headstream group seek shop/orders billing 1200 --partition 3
    """
    with open_log(url) as log:
        found = log.seek_group(topic, name, to, partitions=partitions or None)
    print_objects(_partitions(found), _COLUMNS, output)


@group.command()
@topic_argument
@_group_argument
@yes_option
@url_option
@output_option
def delete(topic: str, name: str, yes: bool, url: str, output: str) -> None:
    """Delete all committed offsets of a group of TOPIC, immediately and permanently.

    \b
    Example:
      headstream group delete shop/orders billing --yes
    """
    with open_log(url) as log:
        found, place = log.group(topic, name), log.topic(topic).full_name
        confirm(f"Delete group {found.name} of {place} and all offsets it has committed", yes=yes)
        log.delete_group(topic, name)
    print_object({"deleted": found.name, "topic": place}, output)


def _summary(found: Group) -> dict[str, Any]:
    return {"group": found.name, "topic": found.topic, "lag": found.lag, "process": found.process}


def _partitions(found: Group) -> list[dict[str, Any]]:
    return [
        {
            "partition": place.number,
            "committed": place.committed,
            "first_offset": place.first_offset,
            "end_offset": place.end_offset,
            "lag": place.lag,
            "member": place.member,
        }
        for place in found.partitions
    ]
