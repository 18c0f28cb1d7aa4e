"""Routing between clusters by header, a use for which headers were proposed (KIP-82): a mirror that reads only headers.

Each region has its own log. Messages for another region are copied to its log without reading their payloads, and copies are not
copied back. If the mirror is killed, the next run continues, and each message is copied once.

    python examples/route_between_clusters.py
"""

from collections.abc import Callable

import headstream as hs
from headstream.mirror import Mirror, MirrorOptions


def to(region: str) -> Callable[[hs.ReceivedMessage], str | None]:
    """Return the route for a region: the same topic for messages of the region; all other messages are skipped."""

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

for _ in range(2):  # the second run copies nothing: there are no new messages, and copies are not copied back
    for here, there in (("eu", "us"), ("us", "eu")):
        stats = Mirror(logs[here], logs[there], MirrorOptions(once=True, route=to(there))).run()
        print(f"{here} -> {there}: {stats.copied} copied, {stats.left_out} skipped, {stats.looped} from {there}")

for message in logs["us"].poll("shop/orders"):
    print("us contains", message.payload, dict(message.headers.items())["priority"], "from", message.headers["hs.mirror"].value)
assert {message.payload for message in logs["us"].poll("shop/orders")} == {b"order 1", b"order 3"}

for log in logs.values():
    log.close()
