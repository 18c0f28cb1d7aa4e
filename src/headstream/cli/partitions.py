"""`headstream partition`: create, delete."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from headstream.cli.output import print_object
from headstream.cli.parameters import open_log, output_option, topic_argument, url_option

if TYPE_CHECKING:
    from headstream.model.topology import Topic

__all__ = ["partition"]

_count_option = click.option("--count", type=click.IntRange(min=1), default=1, show_default=True, help="How many.")


@click.group()
def partition() -> None:
    """Partitions of a topic: what its messages are spread over.

    \b
    Examples:
      headstream partition create shop/orders --count 2
      headstream partition delete shop/orders
    """


@partition.command()
@topic_argument
@_count_option
@url_option
@output_option
def create(topic: str, count: int, url: str, output: str) -> None:
    """Add partitions to TOPIC, behind its last one.

    \b
    Example:
      headstream partition create shop/orders --count 2
    """
    with open_log(url) as log:
        _print(log.create_partitions(topic, count), output)


@partition.command()
@topic_argument
@_count_option
@url_option
@output_option
def delete(topic: str, count: int, url: str, output: str) -> None:
    """Delete the highest numbered partitions of TOPIC with their messages, at once and for good.

    \b
    Example:
      headstream partition delete shop/orders
    """
    with open_log(url) as log:
        _print(log.delete_partitions(topic, count), output)


def _print(found: Topic, form: str) -> None:
    print_object({"topic": found.full_name, "partitions": len(found.partitions)}, form)
