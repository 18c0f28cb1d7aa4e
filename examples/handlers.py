"""Typed handlers: functions whose arguments come from the payload, the headers and the message.

python examples/handlers.py
"""

import asyncio
from dataclasses import dataclass

import headstream as hs

app = hs.App("file:///var/lib/shop")  # or headstream://user:password@host:8090, or kafka://…


@dataclass
class Order:
    """An order of a customer."""

    number: int
    product: str


@dataclass
class Invoice:
    """The amount that the customer pays."""

    number: int
    cents: int


PRICES = {"teapot": 2500, "cup": 700}


@app.consume(
    "shop/orders",
    group="billing",
    produce="shop/invoices",  # the return value is stored there before the order is committed
    on_error=hs.Retry(attempts=2, delay="10ms"),
    dead_letter="shop/orders.dead",
    concurrency=2,  # two partitions concurrently; messages of a partition stay in order
)
async def bill(order: Order, source: hs.string, message: hs.ReceivedMessage) -> Invoice:
    """Return the invoice of an order."""
    print(f"order {order.number} from {source}, attempt {message.attempt}")
    return Invoice(order.number, PRICES[order.product])


@app.consume("shop/invoices", group="books")
def book(invoice: Invoice) -> None:
    """Print an invoice."""
    print(f"invoice {invoice.number}: {invoice.cents / 100:.2f}")


async def try_it() -> None:
    """Run the handlers on a log in memory, as in a test."""
    async with hs.connect_async("memory://") as log:
        await log.create_topic("shop/orders", partitions=2)
        await log.create_topic("shop/invoices")
        for number, product in enumerate(["teapot", "cup", "spoon"]):
            payload = b'{"number": %d, "product": "%s"}' % (number, product.encode())
            await log.send("shop/orders", payload, key=b"%d" % number, headers={"source": "web"})
        async with app.with_log(log) as running:
            await running.drain()
        (letter,) = await log.poll("shop/orders.dead")
        assert letter.headers["hs.reason"] == "KeyError: 'spoon'"
        assert len(await log.poll("shop/invoices")) == 2


if __name__ == "__main__":
    asyncio.run(try_it())  # a service calls app.run(), which runs until Ctrl-C
