"""Two workers of one group share the partitions of a topic; each message is processed once.

python examples/groups.py
"""

from __future__ import annotations

import threading

import headstream as hs


def work(name: str, log: hs.Client, done: list[str]) -> None:
    """Read as a member of the group until no message arrives for a second."""
    with log.consumer("shop/orders", group="billing", timeout_ms=1000) as consumer:
        for message in consumer:  # committed when the next message is requested
            done.append(f"{name}: order {message.key!r} from partition {message.partition}")


with hs.connect("memory://") as log:
    log.create_topic("shop/orders", partitions=4)
    with log.producer("shop/orders") as producer:
        for number in range(100):
            producer.send(b'{"total": 12.5}', key=b"%d" % number)

    with log.consumer("shop/orders", group="billing") as first:
        print("the only member reads partitions", sorted(first.positions))
        print("it polls", len(first.poll(10)), "messages without a commit; they are delivered again")

    done: list[str] = []
    workers = [threading.Thread(target=work, args=(name, log, done)) for name in ("one", "two")]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    print(len(done), "orders processed, each once")

    group = log.group("shop/orders", "billing")
    for partition in group.partitions:
        print(f"partition {partition.number}: committed {partition.committed}, lag {partition.lag}")
    assert len(done) == 100
    assert group.lag == 0
