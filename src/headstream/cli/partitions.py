"""`headstream partition`: list, show, create, delete, states, set-state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from headstream.cli.shared.confirmation import confirm, describe_loss, yes_option
from headstream.cli.shared.delivery_output import STATE_COLUMNS, describe_state, print_message_states
from headstream.cli.shared.output import print_object, print_objects
from headstream.cli.shared.parameters import PARTITION, Checked, open_log, output_option, topic_argument, url_option
from headstream.core.model.message import parse_state, state_name
from headstream.errors import PartitionNotFoundError

if TYPE_CHECKING:
    from headstream.core.model.topology import Partition, Topic

PARTITION_COLUMNS: Final = ("partition", "first_offset", "end_offset", "messages", "size_bytes")

_count_option = click.option("--count", type=click.IntRange(min=1), default=1, show_default=True, help="Number of partitions.")


@click.group()
def partition() -> None:
    """Manage a topic's partitions, over which its messages are distributed.

    \b
    Examples:
      headstream partition list shop/orders
      headstream partition create shop/orders --count 2
    """


@partition.command("list")
@topic_argument
@url_option
@output_option
def list_partitions(topic: str, url: str, output: str) -> None:
    """List the partitions of TOPIC.

    \b
    Example:
      headstream partition list shop/orders
    """
    with open_log(url) as log:
        found = log.topic(topic)
    print_objects([describe_partition(each) for each in found.partitions], PARTITION_COLUMNS, output)


@partition.command()
@topic_argument
@click.argument("number", metavar="PARTITION", type=PARTITION)
@url_option
@output_option
def show(topic: str, number: int, url: str, output: str) -> None:
    """Show one PARTITION of TOPIC.

    \b
    Example:
      headstream partition show shop/orders 2
    """
    with open_log(url) as log:
        found = next((each for each in log.topic(topic).partitions if each.number == number), None)
    if found is None:
        raise PartitionNotFoundError(f"there is no partition {number}", where=topic, advice="See `headstream partition list`")
    print_object(describe_partition(found), output)


@partition.command()
@topic_argument
@_count_option
@url_option
@output_option
def create(topic: str, count: int, url: str, output: str) -> None:
    """Add partitions to TOPIC, after its last partition.

    \b
    Example:
      headstream partition create shop/orders --count 2
    """
    with open_log(url) as log:
        _print(log.create_partitions(topic, count), output)


@partition.command()
@topic_argument
@_count_option
@yes_option
@url_option
@output_option
def delete(topic: str, count: int, yes: bool, url: str, output: str) -> None:
    """Delete the highest-numbered partitions of TOPIC with their messages, immediately and permanently.

    \b
    Example:
      headstream partition delete shop/orders --yes
    """
    with open_log(url) as log:
        found = log.topic(topic)
        deleted = found.partitions[-count:]
        loss = describe_loss(sum(place.messages_count for place in deleted), sum(place.size_bytes for place in deleted))
        numbers = ", ".join(str(place.number) for place in deleted)
        confirm(f"Delete partition{'s' * (len(deleted) != 1)} {numbers} of {found.full_name} with {loss}", yes=yes)
        _print(log.delete_partitions(topic, count), output)


_partition_option = click.option(
    "--partition", "number", type=PARTITION, default=1, show_default=True, help="Partition number, from 1."
)


@partition.command()
@topic_argument
@_partition_option
@click.option("--offset", type=click.IntRange(0), help="Show one message: its state, and its delivery history in each group.")
@url_option
@output_option
def states(topic: str, number: int, offset: int | None, url: str, output: str) -> None:
    """List the messages in a partition of TOPIC whose state is not available, with reasons; with --offset, show one message.

    \b
    Examples:
      headstream partition states shop/orders --partition 2
      headstream partition states shop/orders --partition 2 --offset 17
    """
    with open_log(url) as log:
        if offset is not None:
            print_message_states(log, topic, number, offset, output)
            return
        changes = log.states(topic, number)
    print_objects([describe_state(change, output) for change in changes], STATE_COLUMNS, output)


@partition.command("set-state")
@topic_argument
@click.argument("state", type=Checked("state", parse_state))
@click.argument("offsets", type=click.IntRange(0), nargs=-1, required=True)
@_partition_option
@click.option("--reason", default="", help="Reason stored with the state change, up to 1000 bytes.")
@click.option("--by", default="", help="Author stored with the state change; a server stores the logged-in user instead.")
@url_option
@output_option
def set_state(topic: str, state: int, offsets: tuple[int, ...], number: int, reason: str, by: str, url: str, output: str) -> None:
    """Set the STATE of the messages at OFFSETS in a partition of TOPIC; by default, consumers receive only available messages.

    \b
    Examples:
      headstream partition set-state shop/orders poisoned 5 8 --reason "no JSON" --by ops
      headstream partition set-state shop/orders available 5 8
    """
    with open_log(url) as log:
        log.set_state(topic, number, offsets, state, reason=reason, by=by)
        name = log.topic(topic).full_name
    print_object({"topic": name, "partition": number, "state": state_name(state), "messages": len(set(offsets))}, output)


def describe_partition(found: Partition) -> dict[str, Any]:
    """Return the members of a partition's output; PARTITION_COLUMNS lists them."""
    return {
        "partition": found.number,
        "first_offset": found.first_offset,
        "end_offset": found.end_offset,
        "messages": found.messages_count,
        "size_bytes": found.size_bytes,
    }


def _print(found: Topic, form: str) -> None:
    print_object({"topic": found.full_name, "partitions": len(found.partitions)}, form)
