"""`headstream send`, `poll` and `tail`: send and show individual messages."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import click

from headstream.cli.shared.filtering import FilterInput, choice_options
from headstream.cli.shared.header_text import parse_header
from headstream.cli.shared.message_view import MessageForm, form_options, is_before, print_message_lines, print_message_table
from headstream.cli.shared.output import check_reader, print_object
from headstream.cli.shared.parameters import (
    PARTITION,
    Checked,
    open_log,
    output_option,
    start_parameter,
    topic_argument,
    until_option,
    url_option,
)
from headstream.core.model.header_values import HeaderValue
from headstream.core.model.identifiers import check_name, parse_message_id
from headstream.core.model.message import ReceivedMessage
from headstream.core.model.polling import PollingKind, PollingStrategy
from headstream.core.model.topology import Topic
from headstream.errors import InvalidInputError

if TYPE_CHECKING:
    from headstream.client.client import Client
    from headstream.client.consumer.consumer import Consumer
    from headstream.client.producer.producer import Producer

_WAIT_MS: Final = 1000
_TAIL_COUNT: Final = 1000


@click.command()
@topic_argument
@click.argument("payload", required=False)
@click.option("--key", help="Key of the message: messages with the same key are stored in the same partition.")
@click.option(
    "--partition", type=PARTITION, help="Partition, from 1. [default: by key, or the lowest end offset; with --lines, in turn]"
)
@click.option(
    "--header",
    "headers",
    multiple=True,
    type=Checked("k=kind:value", parse_header),
    help="Typed header, for example attempt=uint8:3; repeatable.",
)
@click.option(
    "--id",
    "message_id",
    type=Checked("id", parse_message_id),
    default="0",
    help="Message id, a UUID or a number; 0 generates an id.",
)
@click.option("--null", "is_null", is_flag=True, help="Send a null payload, to a topic with wide limits.")
@click.option("--lines", "by_line", is_flag=True, help="Send every line of standard input as a message.")
@click.option("--key-delimiter", metavar="TEXT", help="With --lines: the part of a line before the first TEXT is the key.")
@click.option("--count", type=click.IntRange(1), default=1, show_default=True, help="Number of times to send the message.")
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
    key_delimiter: str | None,
    count: int,
    url: str,
    output: str,
) -> None:
    """Send PAYLOAD to TOPIC, which must exist; without PAYLOAD, or with -, standard input is sent.

    A header is k=value (a string) or k=kind:value. The kinds are raw (base64), string, bool, int8 to int128, uint8 to uint128,
    float32 and float64; topics with wide limits also accept null and char.

    \b
    Examples:
      headstream send shop/orders '{"total": 12.5}' --key 42 --header attempt=uint8:3 --header source=web
      headstream send shop/orders - < order.json
      seq 1000 | headstream send shop/orders --lines
      headstream send shop/orders --lines --key-delimiter : < keyed.txt
    """
    if is_null and (payload is not None or by_line):
        raise click.UsageError("--null sends a null payload: omit PAYLOAD.")
    if by_line and payload not in (None, "-"):
        raise click.UsageError("--lines reads standard input: omit PAYLOAD.")
    if key_delimiter is not None and (not by_line or key is not None or not key_delimiter):
        raise click.UsageError("--key-delimiter requires --lines and a non-empty delimiter, and excludes --key.")
    given = _encode_text(key)
    with open_log(url) as log:
        found = log.topic(topic)
        with log.producer(topic) as producer:
            target = partition if by_line else _choose_partition(found, producer, given, partition)
            sent = 0
            for number, data in enumerate(_payloads(payload, is_null, by_line), 1):
                try:
                    if key_delimiter is not None:
                        given, data = _split_key(data or b"", os.fsencode(key_delimiter))
                    for _ in range(count):
                        producer.send(data, key=given, headers=headers, id=message_id, partition=target)
                        sent += 1
                except InvalidInputError as error:
                    if not by_line:
                        raise
                    before = f"{sent} message{'s' * (sent != 1)} before it {'were' if sent != 1 else 'was'} sent"
                    raise type(error)(
                        error.what, where=f"line {number} of standard input; {before}", advice=error.advice
                    ) from None
    print_object({"topic": found.full_name, "partition": target, "sent": sent}, output)


@click.command()
@topic_argument
@click.option("--partition", type=PARTITION, help="Partition, from 1. [default: all]")
@click.option(
    "--offset",
    "--from",
    "offset",
    type=start_parameter("first", "last", "next"),
    default="first",
    show_default=True,
    help="Where to start: an offset, a time, an age (-1h), first (oldest message), last (newest message), or next (after the "
    "last message that an earlier `--offset next` showed).",
)
@until_option
@click.option("--count", type=click.IntRange(1), default=10, show_default=True, help="Maximum number of messages.")
@click.option("--last", "newest", type=click.IntRange(1), metavar="N", help="Newest N messages, like --offset last --count N.")
@click.option(
    "--consumer",
    type=Checked("name", lambda text: check_name(text, "consumer")),
    default="cli",
    show_default=True,
    help="Name of the consumer for --offset next.",
)
@choice_options
@url_option
@form_options
def poll(
    topic: str,
    partition: int | None,
    offset: PollingStrategy,
    until: PollingStrategy | None,
    count: int,
    newest: int | None,
    consumer: str,
    chosen: FilterInput,
    url: str,
    form: MessageForm,
) -> None:
    """Show existing messages of TOPIC, without waiting for more.

    \b
    Examples:
      headstream poll shop/orders --count 3
      headstream poll shop/orders --partition 2 --offset last --output json
      headstream poll shop/orders --offset 2026-01-31T12:00:00Z --states available,poisoned
      headstream poll shop/orders --offset -1h --until -30m --count 1000 --payload-as json
      headstream poll shop/orders --where "attempt >= 3 AND source IN ('web', 'app')"
      headstream poll shop/orders --last 5 --format '%p:%o %k %h{attempt} %s'
    """
    if newest is not None:
        offset, count = PollingStrategy.last(), newest
    if until is not None and offset.kind in (PollingKind.LAST, PollingKind.NEXT):
        raise click.UsageError("--until excludes --last, --offset last and --offset next.")
    with open_log(url) as log:
        if chosen.explain(log, form.output, topic):
            return
        if offset.kind is PollingKind.NEXT:
            numbers = None if partition is None else [partition]
            with log.consumer(topic, name=consumer, partitions=numbers, **chosen.options) as reader:
                print_message_table(reader.poll(count), form)
                sys.stdout.flush()
                reader.commit()  # only after the messages are printed
            return
        if until is None:
            found = log.poll(topic, partition, start=offset, count=count, **chosen.options)
        else:
            found = list(_poll_until(log, topic, partition, offset, until, count, chosen))
    print_message_table(found, form)


def _poll_until(
    log: Client,
    topic: str,
    partition: int | None,
    offset: PollingStrategy,
    until: PollingStrategy,
    count: int,
    chosen: FilterInput,
) -> Iterator[ReceivedMessage]:
    """Yield at most `count` messages before an offset or time, partition by partition."""
    numbers = [place.number for place in log.topic(topic).partitions] if partition is None else [partition]
    left = count
    for number in numbers:
        for message in log.poll(topic, number, start=offset, count=left, **chosen.options) if left else ():
            if not is_before(message, until):
                break
            left -= 1
            yield message


@click.command()
@topic_argument
@click.option("--partition", "partitions", type=PARTITION, multiple=True, help="Partition, from 1; repeatable. [default: all]")
@click.option(
    "--from",
    "--offset",
    "start",
    type=start_parameter("first", "last"),
    default="last",
    show_default=True,
    help="Where to start: an offset, a time, an age (-1h), first (oldest message), or last (new messages only).",
)
@click.option("--last", "newest", type=click.IntRange(1), metavar="N", help="Start with the newest N messages of the topic.")
@click.option(
    "--group",
    type=Checked("group", lambda text: check_name(text, "group")),
    help="Read as a member of this group: share its partitions, continue from its commits, and commit the shown messages.",
)
@click.option("--count", type=click.IntRange(1), help="End after this number of messages.")
@choice_options
@url_option
@form_options
def tail(
    topic: str,
    partitions: tuple[int, ...],
    start: PollingStrategy,
    newest: int | None,
    group: str | None,
    count: int | None,
    chosen: FilterInput,
    url: str,
    form: MessageForm,
) -> None:
    """Show messages of TOPIC as they arrive, until Ctrl-C; the exit code is then 0.

    \b
    Examples:
      headstream tail shop/orders
      headstream tail shop/orders --from first --output jsonl | jq .headers
      headstream tail shop/orders --last 20 --format '%d %k %s'
      headstream tail shop/orders --group billing --payload-as json
      headstream tail shop/orders --where "tenant = 'acme' AND NOT is_test"
    """
    if newest is not None and chosen.where is not None:
        raise click.UsageError("--last excludes --where: start at a time, for example --from -1h.")
    if newest is not None and group is not None:
        raise click.UsageError("--last excludes --group: a group continues from its committed offsets.")
    begin = PollingStrategy.last() if newest is not None else start
    try:
        with open_log(url) as log, ExitStack() as stack:
            if chosen.explain(log, form.output, topic):
                return
            reading = log.consumer(topic, group=group, partitions=partitions or None, start=begin, **chosen.options)
            consumer = stack.enter_context(reading)
            older = _newest_before(log, topic, consumer.positions, chosen.states, newest) if newest is not None else []
            print_message_lines(_follow(consumer, older, count, commit=group is not None), form, flush=True)
    except KeyboardInterrupt:
        return


def _newest_before(
    log: Client, topic: str, ends: dict[int, int], states: tuple[str, ...] | None, count: int
) -> list[ReceivedMessage]:
    """Return the newest messages before the consumer's start, so that no message is shown twice."""
    found: list[ReceivedMessage] = []
    for number, end in ends.items():
        polled = log.poll(topic, number, start="last", count=count, states=states)
        found += [message for message in polled if message.offset < end]
    return sorted(found, key=lambda message: (message.timestamp, message.partition, message.offset))[-count:]


def _follow(consumer: Consumer, older: list[ReceivedMessage], count: int | None, *, commit: bool) -> Iterator[ReceivedMessage]:
    shown = 0
    messages = older if count is None else older[:count]
    while True:
        for message in messages:
            yield message
            shown += 1
        if messages and commit:
            consumer.commit()
        if count is not None and shown >= count:
            return
        if not messages:
            check_reader()  # `| head -1` exits long before the next message arrives
        messages = consumer.poll(_TAIL_COUNT if count is None else min(_TAIL_COUNT, count - shown), timeout_ms=_WAIT_MS)


def _split_key(line: bytes, delimiter: bytes) -> tuple[bytes, bytes]:
    key, found, payload = line.partition(delimiter)
    if not found:
        raise InvalidInputError(
            f"the line has no {delimiter.decode(errors='replace')!r}", advice="Write the key, the delimiter and the payload"
        )
    return key, payload


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
    """Return the bytes of a command-line text, even if it is not UTF-8."""
    return None if text is None else os.fsencode(text)


def _choose_partition(topic: Topic, producer: Producer, key: bytes | None, partition: int | None) -> int:
    """Return a message's partition: as given, by key, or with the lowest end offset, because single sends cannot rotate."""
    if partition is not None:
        return partition
    if key is not None:
        return producer.partition_of(key)
    return min(topic.partitions, key=lambda place: (place.end_offset, place.number)).number
