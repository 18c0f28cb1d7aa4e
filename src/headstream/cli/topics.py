"""`headstream topic`: list, show, create, update, delete, purge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

import click

from headstream.cli.partitions import PARTITION_COLUMNS, describe_partition
from headstream.cli.shared.confirmation import confirm, describe_loss, yes_option
from headstream.cli.shared.output import format_time, print_object, print_objects, print_text
from headstream.cli.shared.parameters import Checked, open_log, output_option, topic_argument, url_option, warn_missing_log
from headstream.cli.shared.topic_options import changing_options, creating_options, format_options
from headstream.core.model.identifiers import check_name
from headstream.core.model.topology import MAX_PARTITIONS, Fsync, Limits

if TYPE_CHECKING:
    from headstream.client.arguments import TopicOptionsInput
    from headstream.core.model.topology import Topic

_COLUMNS = ("name", "id", "limits", "partitions", "messages", "size_bytes")


@click.group()
def topic() -> None:
    """Manage topics, which store messages in partitions. The full name of a topic has the form STREAM/TOPIC.

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
    """List the topics of STREAM, or of all streams.

    \b
    Examples:
      headstream topic list
      headstream topic list shop --output jsonl
    """
    with open_log(url) as log:
        found = log.topics(stream)
        warn_missing_log(log)
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
@click.option("--partitions", type=click.IntRange(1, MAX_PARTITIONS), default=1, show_default=True, help="Number of partitions.")
@click.option(
    "--limits",
    type=click.Choice([limits.value for limits in Limits]),
    default=Limits.IGGY.value,
    show_default=True,
    help="Messages that the topic accepts. iggy: messages that any Iggy client can read; wide: also empty and null payloads, and "
    "long header values.",
)
@click.option(
    "--fsync",
    type=click.Choice([policy.value for policy in Fsync]),
    default=Fsync.INTERVAL.value,
    show_default=True,
    help="When messages are synced to the disk. always: before they are acknowledged; interval: within a second; "
    "never: when the operating system writes them.",
)
@creating_options
@click.option("--if-not-exists", is_flag=True, help="Leave an existing topic of that name unchanged.")
@url_option
@output_option
def create(
    topic: str,
    partitions: int,
    limits: str,
    fsync: str,
    if_not_exists: bool,
    url: str,
    output: str,
    **options: Unpack[TopicOptionsInput],
) -> None:
    """Create a topic, and its stream if it does not exist.

    \b
    Examples:
      headstream topic create shop/orders --partitions 4
      headstream topic create cdc/raw --limits wide --if-not-exists
      headstream topic create bank/transfers --fsync always
      headstream topic create web/clicks --retention 7d --retention-bytes 10GB
      headstream topic create shop/prices --limits wide --compaction 1d
      headstream topic create bank/payments --deduplication 100000
    """
    with open_log(url) as log:
        made = log.create_topic(topic, partitions, limits=limits, fsync=fsync, if_not_exists=if_not_exists, **options)
    _print(made, output)


@topic.command()
@topic_argument
@click.option(
    "--name", type=Checked("name", lambda text: check_name(text, "topic")), help="New name of the topic, without the stream."
)
@changing_options
@url_option
@output_option
def update(topic: str, name: str | None, url: str, output: str, **options: Unpack[TopicOptionsInput]) -> None:
    """Change a topic's name or options; omitted options stay unchanged.

    \b
    Examples:
      headstream topic update web/clicks --retention 7d --retention-bytes 10GB
      headstream topic update web/clicks --retention forever
      headstream topic update shop/prices --compaction 1d --deduplication none
      headstream topic update shop/orders --name purchases
    """
    with open_log(url) as log:
        if name is not None:
            topic = log.rename_topic(topic, name).full_name
        changed = log.update_topic(topic, **options)
    _print(changed, output)


@topic.command()
@topic_argument
@yes_option
@url_option
@output_option
def delete(topic: str, yes: bool, url: str, output: str) -> None:
    """Delete a topic with all its messages, immediately and permanently.

    \b
    Example:
      headstream topic delete shop/orders --yes
    """
    with open_log(url) as log:
        found = log.topic(topic)
        confirm(f"Delete topic {found.full_name} with {describe_loss(found.messages_count, found.size_bytes)}", yes=yes)
        log.delete_topic(topic)
    print_object({"deleted": found.full_name}, output)


@topic.command()
@topic_argument
@yes_option
@url_option
@output_option
def purge(topic: str, yes: bool, url: str, output: str) -> None:
    """Remove all messages and committed offsets of a topic, immediately and permanently.

    \b
    Example:
      headstream topic purge shop/orders --yes
    """
    with open_log(url) as log:
        found = log.topic(topic)
        loss = describe_loss(found.messages_count, found.size_bytes)
        confirm(f"Purge topic {found.full_name}: remove {loss} and all committed offsets", yes=yes)
        log.purge_topic(topic)
    print_object({"purged": found.full_name}, output)


def _print(found: Topic, form: str) -> None:
    if form != "table":
        print_object(_describe(found), form)
        return
    print_object(_summarize(found) | format_options(found), form)
    print_text("")
    print_objects([describe_partition(partition) for partition in found.partitions], PARTITION_COLUMNS, form)


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
        "compaction_delay_us": found.compaction_delay_us,
        "deduplication_count": found.deduplication_count,
        "summary_headers": found.summary_headers,
        "deletion_grace_us": found.deletion_grace_us,
        "legal_hold": found.legal_hold,
        "kafka_headers": found.kafka_headers or "headstream",
        "created_us": found.created_us,
        "messages": found.messages_count,
        "size_bytes": found.size_bytes,
        "partitions": [describe_partition(partition) for partition in found.partitions],
    }
