"""`headstream send`, `poll` and `tail`: messages one by one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import click

from headstream.cli.header_text import parse_header
from headstream.cli.message_view import print_message_lines, print_message_table
from headstream.cli.output import print_object
from headstream.cli.parameters import (
    Checked,
    open_log,
    output_option,
    start_parameter,
    states_option,
    topic_argument,
    url_option,
)
from headstream.model.header_values import HeaderValue
from headstream.model.identifiers import check_name, parse_message_id
from headstream.model.message import ReceivedMessage
from headstream.model.polling import PollingKind, PollingStrategy, partition_of

if TYPE_CHECKING:
    from headstream.client.client import Client

__all__ = ["poll", "send", "tail"]

_WAIT_MS: Final = 1000
_TAIL_COUNT: Final = 1000


@click.command()
@topic_argument
@click.argument("payload", required=False)
@click.option("--key", help="Text that chooses the partition.")
@click.option("--partition", type=click.IntRange(1), help="Where to; otherwise the key chooses, or the emptiest is taken.")
@click.option(
    "--header", "headers", multiple=True, type=Checked("k=kind:value", parse_header), help="A typed header; may be repeated."
)
@click.option("--id", "message_id", type=Checked("id", parse_message_id), default="0", help="A UUID or number; 0: one is made.")
@click.option("--null", "is_null", is_flag=True, help="Send a null payload, to a topic with wide limits.")
@click.option("--lines", "by_line", is_flag=True, help="Every line of standard input is a message of its own.")
@click.option("--count", type=click.IntRange(1), default=1, show_default=True, help="How many times to send it.")
@url_option
@output_option
def send(
    topic: str,
    payload: str | None,
    key: str | None,
    partition: int | None,
    headers: tuple[tuple[str, HeaderValue], ...],
    message_id: int,
    is_null: bool,
    by_line: bool,
    count: int,
    url: str,
    output: str,
) -> None:
    """Send PAYLOAD to TOPIC, which must exist; without PAYLOAD, or with -, standard input is sent.

    A header is k=value (a string) or k=kind:value, of one of the kinds raw (base64), string, bool, int8 to int128, uint8
    to uint128, float32, float64, and for topics with wide limits null and char.

    \b
    Examples:
      headstream send shop/orders '{"total": 12.5}' --key 42 --header attempt=uint8:3 --header source=web
      headstream send shop/orders - < order.json
      seq 1000 | headstream send shop/orders --lines
    """
    if is_null and (payload is not None or by_line):
        raise click.UsageError("--null is a payload of its own: give no other.")
    if by_line and payload not in (None, "-"):
        raise click.UsageError("--lines reads standard input: give no payload.")
    given = _encode_text(key)
    with open_log(url) as log:
        target = partition if by_line else _choose_partition(log, topic, given, partition)
        with log.producer(topic) as producer:
            sent = 0
            for data in _payloads(payload, is_null, by_line):
                for _ in range(count):
                    producer.send(data, key=given, headers=headers, id=message_id, partition=target)
                    sent += 1
    print_object({"topic": topic, "partition": target, "sent": sent}, output)


@click.command()
@topic_argument
@click.option("--partition", type=click.IntRange(1), help="Of which partition; otherwise of all.")
@click.option(
    "--offset",
    type=start_parameter("first", "last", "next"),
    default="first",
    show_default=True,
    help="Where to begin: an offset or a time; first, the oldest; last, the newest; next, after what next has shown before.",
)
@click.option("--count", type=click.IntRange(1), default=10, show_default=True, help="The most messages.")
@click.option(
    "--consumer",
    type=Checked("name", lambda text: check_name(text, "consumer")),
    default="cli",
    show_default=True,
    help="Under which name next remembers.",
)
@states_option
@url_option
@output_option
def poll(
    topic: str,
    partition: int | None,
    offset: PollingStrategy,
    count: int,
    consumer: str,
    states: tuple[str, ...] | None,
    url: str,
    output: str,
) -> None:
    """Show messages that TOPIC has now, without waiting for more.

    \b
    Examples:
      headstream poll shop/orders --count 3
      headstream poll shop/orders --partition 2 --offset last --output json
      headstream poll shop/orders --offset 2026-01-31T12:00:00Z --states available,poisoned
    """
    with open_log(url) as log:
        numbers = [partition] if partition is not None else [place.number for place in log.topic(topic).partitions]
        if offset.kind is PollingKind.NEXT:
            with log.consumer(topic, name=consumer, partitions=numbers, states=states) as reader:
                print_message_table(reader.poll(count), output)
                sys.stdout.flush()
                reader.commit()  # what was shown has been shown
            return
        found: list[ReceivedMessage] = []
        for number in numbers:
            if offset.kind is PollingKind.LAST or len(found) < count:
                wanted = count if offset.kind is PollingKind.LAST else count - len(found)
                found += log.poll(topic, number, start=offset, count=wanted, states=states)
    if offset.kind is PollingKind.LAST and partition is None:
        newest = sorted(found, key=lambda message: message.timestamp or 0)[-count:]
        found = sorted(newest, key=lambda message: (message.partition or 0, message.offset or 0))
    print_message_table(found, output)


@click.command()
@topic_argument
@click.option("--partition", "partitions", type=click.IntRange(1), multiple=True, help="Of which partitions; otherwise of all.")
@click.option(
    "--from",
    "start",
    type=start_parameter("first", "last"),
    default="last",
    show_default=True,
    help="Where to begin: an offset or a time; first, the oldest; last, after the newest: what comes from now on.",
)
@click.option("--count", type=click.IntRange(1), help="End after so many messages.")
@states_option
@url_option
@output_option
def tail(
    topic: str,
    partitions: tuple[int, ...],
    start: PollingStrategy,
    count: int | None,
    states: tuple[str, ...] | None,
    url: str,
    output: str,
) -> None:
    """Show messages of TOPIC as they come, until Ctrl-C, which ends it with exit code 0.

    \b
    Examples:
      headstream tail shop/orders
      headstream tail shop/orders --from first --output jsonl | jq .headers
    """
    with open_log(url) as log:
        try:
            print_message_lines(_follow(log, topic, partitions, start, states, count), output, flush=True)
        except KeyboardInterrupt:
            return


def _follow(
    log: Client,
    topic: str,
    partitions: tuple[int, ...],
    start: PollingStrategy,
    states: tuple[str, ...] | None,
    count: int | None,
) -> Iterator[ReceivedMessage]:
    with log.consumer(topic, partitions=partitions or None, start=start, states=states) as consumer:
        shown = 0
        while count is None or shown < count:
            for message in consumer.poll(_TAIL_COUNT if count is None else min(_TAIL_COUNT, count - shown), timeout_ms=_WAIT_MS):
                yield message
                shown += 1


def _payloads(payload: str | None, is_null: bool, by_line: bool) -> Iterator[bytes | None]:
    if is_null:
        yield None
    elif by_line:
        for line in sys.stdin.buffer:
            yield line.removesuffix(b"\n")
    elif payload in (None, "-"):
        yield sys.stdin.buffer.read()
    else:
        yield _encode_text(payload)


def _encode_text(text: str | None) -> bytes | None:
    """Return the bytes that were typed, also where they are not UTF-8."""
    return None if text is None else os.fsencode(text)


def _choose_partition(log: Client, topic: str, key: bytes | None, partition: int | None) -> int:
    """Return where a message goes: a process that sends one message cannot take turns, so it takes the emptiest."""
    if partition is not None:
        return partition
    places = log.topic(topic).partitions
    if key is not None:
        return partition_of(key, len(places))
    return min(places, key=lambda place: (place.end_offset, place.number)).number
