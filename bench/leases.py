"""Leases: a million messages of one partition, leased and settled, over a directory: time, memory, bytes of the journal.

Times are of the processor, because other programs can run. Messages are leased in grants of 1,000 and of one, settled in order by
grants, and one by one with every other message left open, which is the most ranges that a number of messages can have.
"""

from __future__ import annotations

import secrets
import sys
import time
import tracemalloc
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.machine import Report, run_benchmark  # noqa: E402
from headstream.broker.broker import Broker  # noqa: E402
from headstream.client.client import Client  # noqa: E402
from headstream.core.model.groups import Member  # noqa: E402
from headstream.core.model.identifiers import TopicName  # noqa: E402
from headstream.core.model.leases import LeaseChange, LeaseRequest, LeaseStep  # noqa: E402
from headstream.log.opening import open_directory  # noqa: E402

NAME = TopicName("bench", "jobs")
COUNT = 1_000_000
QUICK_COUNT = 20_000
SINGLE = 2000
GRANT = 1000
HOUR_US = 3_600_000_000


def lease(broker: Broker, member: Member, calls: int, count: int) -> list[tuple[int, int, int]]:
    """Lease messages, and return token and range of each grant."""
    found = []
    for _ in range(calls):
        token = secrets.randbits(64)
        grant = broker.leases.lease(NAME, member, LeaseRequest(token, count, HOUR_US, "bench"))
        found += [(token, each.from_offset, each.until_offset) for each in grant.ranges]
    return found


def settle(broker: Broker, grants: list[tuple[int, int, int]]) -> None:
    """Settle ranges, each by a request."""
    for token, begin, until in grants:
        refused = broker.leases.settle_leases(NAME, "workers", 1, [LeaseChange(LeaseStep.DONE, token, begin, until)])
        assert not refused


def journal_bytes(directory: Path) -> int:
    """Return the size of the group's journal."""
    return sum(path.stat().st_size for path in directory.rglob("*.deliveries"))


def run(report: Report, directory: Path, count: int) -> None:
    broker = Broker(open_directory(str(directory)))
    client = Client(broker)
    client.create_topic(str(NAME))
    with client.producer(str(NAME)) as producer:
        for _ in range(count):
            producer.send(b"job")
    member = broker.groups.join(NAME, "workers", is_shared=True)
    tracemalloc.start()

    def line(what: str, calls: int, messages: int, begin_s: float) -> None:
        used_ms, memory = (time.process_time() - begin_s) * 1000, tracemalloc.get_traced_memory()[0] / 1e6
        size = journal_bytes(directory)
        report.line(f"  {what:<42}{messages:>10,}{used_ms / calls:>10.3f} ms{memory:>9.1f} MB{size:>13,}")

    begin_s = time.process_time()
    grants = lease(broker, member, count // GRANT - SINGLE // GRANT, GRANT)
    line(f"leased, {GRANT:,} a request", len(grants), len(grants) * GRANT, begin_s)
    begin_s = time.process_time()
    singles = lease(broker, member, SINGLE, 1)
    line("leased, one a request", len(singles), len(singles), begin_s)
    begin_s = time.process_time()
    settle(broker, singles)
    line("done, one a request", len(singles), len(singles), begin_s)
    token, begin, until = grants.pop()
    alternate = [(token, offset, offset + 1) for offset in range(begin, until, 2)]
    begin_s = time.process_time()
    settle(broker, alternate)
    line("done, every other message, one a request", len(alternate), len(alternate), begin_s)
    begin_s = time.process_time()
    settle(broker, grants)
    line(f"done, {GRANT:,} a request", len(grants), len(grants) * GRANT, begin_s)
    settle(broker, [(token, begin, until)])
    assert client.offsets(str(NAME), "workers") == {1: count}
    tracemalloc.stop()
    client.close()


def main() -> None:
    with run_benchmark("leases", __doc__, "20,000 messages") as (report, directory, is_quick):
        report.line("")
        report.line(f"  {'':<42}{'messages':>10}{'a request':>13}{'memory':>12}{'journal':>13}")
        run(report, directory / "log", QUICK_COUNT if is_quick else COUNT)


if __name__ == "__main__":
    main()
