"""`headstream demo --log`: a first look at a log, typed headers, and a message that fails and becomes a dead letter."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from headstream.client.client import Client
from headstream.connect import connect
from headstream.core.model.constructors import uint32
from headstream.core.model.deliveries import Retry
from headstream.core.model.message import ReceivedMessage
from headstream.core.model.reserved import ATTEMPTS_HEADER, REASON_HEADER

_TOPIC, _DEAD_LETTERS, _GROUP = "shop/orders", "shop/orders.dead", "billing"
_PRICES: Final = {"teapot": 25.0, "cup": 7.5, "kettle": 60.0}
_ORDERS: Final = (("ann", "teapot"), ("dora", "cup"), ("ann", "sppon"), ("cid", "kettle"), ("dora", "teapot"), ("ann", "cup"))
"""Customers and their orders; one order has a misspelt product, for which there is no price."""
_WHERE: Final = "price >= 20 AND NOT express"


def run_log_demo(console: Console, directory: Path) -> None:
    """Run the demo in a directory that does not exist yet, and print each step."""
    url = directory.resolve().as_uri()
    with connect(url) as log:
        console.print(f"[bold]1. A log[/] is a directory, here {directory}. It needs no server, no Java and no compiler.")
        log.create_topic(_TOPIC, partitions=2)
        _send(console, log)
        _show_headers(console, log)
        _bill(console, log)
        _show_dead_letter(console, log)
    console.print("\n[bold]6. Look around[/]")
    console.print(f"   headstream poll {_TOPIC} --url {url}")
    console.print(f"   headstream group show {_TOPIC} {_GROUP} --url {url}")
    console.print(f"   headstream dlq redrive {_DEAD_LETTERS} --url {url}        sends the dead letter back")
    console.print(f"   headstream server --data {directory}        serves the log to Iggy and Kafka clients")
    console.print("   headstream demo        adds Spark and Delta tables")


def _send(console: Console, log: Client) -> None:
    console.print(f"\n[bold]2. Send[/] {len(_ORDERS)} orders to the topic {_TOPIC}. The key, a customer, chooses the partition.")
    with log.producer(_TOPIC) as producer:
        for number, (customer, product) in enumerate(_ORDERS, 1):
            headers = {"order": uint32(number), "price": _PRICES.get(product, 0.0), "express": number % 3 == 0}
            producer.send(product.encode(), key=customer.encode(), headers=headers)


def _show_headers(console: Console, log: Client) -> None:
    console.print("\n[bold]3. Read[/] the orders. Headers have types: a number keeps its type and size.")
    shown = Table("partition", "offset", "key", "payload", "order uint32", "price float64", "express bool")
    for message in sorted(log.poll(_TOPIC), key=lambda each: int(each.headers["order"])):
        texts = [(message.key or b"").decode(), (message.payload or b"").decode()]
        values = [str(message.headers[name]) for name in ("order", "price", "express")]
        shown.add_row(str(message.partition), str(message.offset), *texts, *values)
    console.print(shown)
    found = sorted(int(message.headers["order"]) for message in log.poll(_TOPIC, where=_WHERE))
    console.print(f'   where="{_WHERE}" selects orders by their headers: {", ".join(map(str, found))}')


def _bill(console: Console, log: Client) -> None:
    console.print(f"\n[bold]4. Process[/] the orders in the group {_GROUP!r}. One order fails: its product has no price.")

    def bill(message: ReceivedMessage) -> None:
        product, about = (message.payload or b"").decode(), f"order {message.headers['order']}, attempt {message.attempt}:"
        if product not in _PRICES:
            console.print(f"   [red]{about} no price for {product!r}")
            raise ValueError(f"there is no price for {product!r}")
        console.print(f"   [green]{about} {_PRICES[product]:.2f}")

    began, retry = time.perf_counter(), Retry(attempts=3, delay="200ms", order="skip")
    with log.consumer(_TOPIC, group=_GROUP, on_error=retry, dead_letter=_DEAD_LETTERS, timeout_ms=1000) as consumer:
        consumer.run(bill)
    console.print(
        f"   The order was tried {retry.attempts} times, with delays, while the other orders were processed. "
        f"After {time.perf_counter() - began:.1f} s the group is done: {log.group(_TOPIC, _GROUP).lag} messages are left."
    )


def _show_dead_letter(console: Console, log: Client) -> None:
    (letter,) = log.poll(_DEAD_LETTERS)
    console.print(f"\n[bold]5. The dead letter[/] in {_DEAD_LETTERS} is the whole message, with the reason in its headers:")
    for name in ("order", REASON_HEADER, ATTEMPTS_HEADER, "hs.origin.topic", "hs.origin.partition", "hs.origin.offset"):
        console.print(f"   {name} = {letter.headers[name]!r}")
    place = int(letter.headers["hs.origin.partition"]), int(letter.headers["hs.origin.offset"])
    log.set_state(_TOPIC, *place, "poisoned", reason=str(letter.headers[REASON_HEADER]), by="demo")
    left = len(log.poll(_TOPIC))
    console.print(f"   The original is now [bold]poisoned[/]: consumers skip it, and receive {left} of {len(_ORDERS)} orders.")
