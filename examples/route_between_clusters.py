"""Routing between clusters by header, the use that typed headers were proposed for (KIP-82): a mirror that reads headers alone.

Each region has a log of its own. Messages for another region are carried there, payloads are not looked into, and what has
been carried once does not come back. Killed at any time, the mirror continues, and each message arrives once.

    python examples/route_between_clusters.py
"""

from collections.abc import Callable

import headstream as hs
from headstream.mirror import Mirror, MirrorOptions


def to(region: str) -> Callable[[hs.ReceivedMessage], str | None]:
    """Return the route of messages for a region: the same topic there, unless the message is not for it."""

    def route(message: hs.ReceivedMessage) -> str | None:
        wanted = message.headers.get("region")
        return message.topic if wanted is not None and str(wanted.value) == region else None

    return route


logs = {"eu": hs.connect("memory://eu"), "us": hs.connect("memory://us")}
for log in logs.values():
    log.create_topic("shop/orders", partitions=2)
with logs["eu"].producer("shop/orders") as producer:
    for number, region in enumerate(["eu", "us", "eu", "us"]):
        producer.send(b"order %d" % number, key=b"%d" % number, headers={"region": region, "priority": hs.uint8(number)})

for _ in range(2):  # a second run finds nothing to do, and nothing goes in a circle
    for here, there in (("eu", "us"), ("us", "eu")):
        stats = Mirror(logs[here], logs[there], MirrorOptions(once=True, route=to(there))).run()
        print(f"{here} -> {there}: {stats.copied} carried, {stats.left_out} left, {stats.looped} from there")

for message in logs["us"].poll("shop/orders"):
    print("us has", message.payload, dict(message.headers.items())["priority"], "from", message.headers["hs.mirror"].value)
assert {message.payload for message in logs["us"].poll("shop/orders")} == {b"order 1", b"order 3"}

for log in logs.values():
    log.close()
