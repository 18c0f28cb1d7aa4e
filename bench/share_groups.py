"""Workers that share one partition: Headstream's leases beside the share groups of Kafka 4.2, in one run on one machine.

Kafka's side is its own measuring tool (ShareConsumerPerformance, the Java client, one thread a worker) at a broker of one node;
Headstream's is a Python process a worker at `headstream server`, over TCP. Both take messages of 100 bytes in batches and
acknowledge each batch. A rate is that of four fifths of the messages: the time for all less the time for a fifth of them, so that
neither the start of a process nor its way into the group counts.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import headstream as hs  # noqa: E402
from bench.machine import Report, run_benchmark  # noqa: E402
from headstream.testing import KafkaBroker  # noqa: E402
from tests.support.kafka_tools import run_kafka_tool  # noqa: E402
from tests.support.server.server_process import ServerProcess  # noqa: E402

COUNT = 200_000
QUICK_COUNT = 10_000
WORKERS = (1, 4)
PAYLOAD = b"x" * 100
WORKER = """
import sys, time
import headstream as hs
group = sys.argv[2]
with hs.connect(sys.argv[1]) as log, log.consumer("bench/jobs", group=group, mode="shared") as worker:
    print("ready", flush=True)
    sys.stdin.readline()
    count, begin_s = 0, time.time()
    end_s = begin_s
    while messages := worker.poll(500, timeout_ms=3000):
        worker.commit()
        count, end_s = count + len(messages), time.time()
    print(count, begin_s, end_s, flush=True)
"""


def fill(url: str, topic: str, count: int) -> None:
    """Send messages to one partition."""
    with hs.connect(url) as log:
        log.create_topic(topic)
        with log.producer(topic) as producer:
            for _ in range(count):
                producer.send(PAYLOAD)


def take_from_headstream(directory: Path, count: int, workers: int) -> float:
    """Return how long so many worker processes take, seconds."""
    with ServerProcess(directory / f"log-{workers}-{count}") as server:
        url = f"headstream://iggy:iggy@127.0.0.1:{server.tcp[1]}"
        fill(url, "bench/jobs", count)
        command = [sys.executable, "-c", WORKER, url, "workers"]
        started = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) for _ in range(workers)
        ]
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in started:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        told = [process.communicate()[0].split() for process in started]
    assert sum(int(each[0]) for each in told) == count, told
    return max(float(each[2]) for each in told) - min(float(each[1]) for each in told)


def take_from_kafka(broker: KafkaBroker, count: int, workers: int) -> float:
    """Return how long so many threads of Kafka's own tool take, seconds."""
    address, group = broker.bootstrap_servers, f"workers-{workers}-{count}"
    run_kafka_tool(
        "kafka.admin.ConfigCommand",
        *("--bootstrap-server", address, "--alter", "--entity-type", "groups", "--entity-name", group),
        *("--add-config", "share.auto.offset.reset=earliest"),
    )
    ended = run_kafka_tool(
        "org.apache.kafka.tools.ShareConsumerPerformance",
        *("--bootstrap-server", address, "--topic", "bench.jobs", "--group", group),
        *("--num-records", str(count), "--threads", str(workers), "--timeout", "60000"),
    )
    rows = [line.split(", ") for line in ended.stdout.splitlines() if ", " in line]
    row = dict(zip(rows[0], rows[-1], strict=True))
    return float(row["data.consumed.in.nMsg"]) / float(row["nMsg.sec"])


def run(report: Report, directory: Path, count: int) -> None:
    """Measure both at each number of workers."""
    report.line("")
    report.line(
        f"{count:,} messages of 100 bytes in one partition; messages taken and acknowledged a second, and Headstream's ratio"
    )
    report.line(f"  {'workers':<10}{'Kafka 4.2':>12}{'Headstream':>12}{'ratio':>8}")
    with KafkaBroker() as broker:
        fill(broker.url, "bench.jobs", count)
        for workers in WORKERS:
            part = count // 5
            kafka = (count - part) / (take_from_kafka(broker, count, workers) - take_from_kafka(broker, part, workers))
            took_s = take_from_headstream(directory, count, workers) - take_from_headstream(directory, part, workers)
            headstream = (count - part) / took_s
            report.line(f"  {workers:<10}{kafka:>12,.0f}{headstream:>12,.0f}{headstream / kafka:>8.2f}")


def main() -> None:
    """Measure and report."""
    begin_s = time.monotonic()
    with run_benchmark("share_groups", __doc__, f"{QUICK_COUNT:,} messages, and no file of results") as (
        report,
        directory,
        is_quick,
    ):
        run(report, directory, QUICK_COUNT if is_quick else COUNT)
    print(f"{time.monotonic() - begin_s:.0f} s")


if __name__ == "__main__":
    main()
