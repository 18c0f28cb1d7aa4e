"""Consumers that wait: what they cost while nothing comes, and how soon they have what comes.

Each is a client's consumer of a topic of one partition, in the process that sends, in another one, or in another one with a
server between them. Idle is the processor time of all of them together while nothing is sent, in percent of one core; a wake is
from before send() to the message in a consumer's hands, with producer, disk and threads in between.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import headstream as hs  # noqa: E402
from bench.machine import Report  # noqa: E402
from tests.support.server.server_process import ServerProcess  # noqa: E402

TOPIC = "bench/topic"
IDLE_S = 3.0
SENDS = 50
PAUSE_S = 0.02
END = b"end"


class Consumers:
    """Consumers in threads, or in one event loop, that note how long each message took to them."""

    def __init__(self, url: str, count: int, *, is_async: bool) -> None:
        self._url = url
        self._count = count
        self.delays_us: list[float] = []
        self._ready = threading.Semaphore(0)
        if is_async:
            self._threads = [threading.Thread(target=lambda: asyncio.run(self._run_all()))]
        else:
            self._log = hs.connect(url)
            self._threads = [threading.Thread(target=self._run) for _ in range(count)]
        for thread in self._threads:
            thread.start()
        for _ in range(count):
            self._ready.acquire()

    def _take(self, message: hs.Message) -> bool:
        if message.payload == END:
            return False
        self.delays_us.append((time.monotonic_ns() - int(message.payload or b"0")) / 1e3)
        return True

    def _run(self) -> None:
        with self._log.consumer(TOPIC, start="last") as consumer:
            self._ready.release()
            for message in consumer:
                if not self._take(message):
                    return

    async def _run_all(self) -> None:
        async with hs.connect_async(self._url) as log:

            async def run() -> None:
                async with log.consumer(TOPIC, start="last") as consumer:
                    self._ready.release()
                    async for message in consumer:
                        if not self._take(message):
                            return

            await asyncio.gather(*(run() for _ in range(self._count)))

    def measure_idle(self) -> float:
        time.sleep(1)
        begin, began = time.process_time(), time.perf_counter()
        time.sleep(IDLE_S)
        return (time.process_time() - begin) / (time.perf_counter() - began) * 100

    def finish(self) -> list[float]:
        for thread in self._threads:
            thread.join()
        return self.delays_us


def send_all(url: str) -> None:
    with hs.connect(url) as log, log.producer(TOPIC, linger_ms=0) as producer:
        for _ in range(SENDS):
            producer.send(b"%d" % time.monotonic_ns())
            producer.flush()
            time.sleep(PAUSE_S)
        producer.send(END)


def line(report: Report, title: str, idle: float, delays: list[float]) -> None:
    delays = sorted(delays)
    report.line(
        f"  {title:<60}{idle:>9.2f} %{statistics.median(delays):>11,.0f} us"
        f"{delays[len(delays) * 9 // 10]:>11,.0f} us{delays[-1]:>11,.0f} us"
    )


def measure_here(report: Report, root: Path, title: str, count: int, *, is_async: bool) -> None:
    url = root.as_uri()
    with hs.connect(url) as log:  # the writer, as long as the consumers wait
        log.create_topic(TOPIC)
        consumers = Consumers(url, count, is_async=is_async)
        idle = consumers.measure_idle()
        send_all(url)
        line(report, f"{title} in the writer's process", idle, consumers.finish())


def measure_there(report: Report, url: str, title: str, count: int, *, is_async: bool) -> None:
    with hs.connect(url) as log:
        log.create_topic(TOPIC)
        child = [sys.executable, "-m", "bench.log_waiting", "child", url, str(count), "async" if is_async else "threads"]
        with subprocess.Popen(child, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
            assert process.stdout is not None
            idle = float(process.stdout.readline())
            send_all(url)
            delays = [float(delay) for delay in process.stdout.readline().split()]
        line(report, f"{title} in another process{', a server between' * url.startswith('headstream')}", idle, delays)


def run_child(url: str, count: str, how: str) -> None:
    consumers = Consumers(url, int(count), is_async=how == "async")
    print(consumers.measure_idle(), flush=True)
    print(*consumers.finish(), flush=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as name, Report("log_waiting", write="--dry" not in sys.argv) as report:
        report.line("")
        report.line(f"  {'':<60}{'idle':>11}{'wake, median':>14}{'nine in ten':>14}{'longest':>14}")
        for number, (count, is_async) in enumerate([(1, False), (100, False), (1, True), (100, True)]):
            title = f"{count} {'async ' * is_async}consumer{'s' * (count > 1)}"
            place = Path(name) / str(number)
            measure_here(report, place / "here", title, count, is_async=is_async)
            measure_there(report, (place / "there").as_uri(), title, count, is_async=is_async)
            with ServerProcess(place / "served") as server:
                url = f"headstream://iggy:iggy@127.0.0.1:{server.tcp[1]}"
                measure_there(report, url, title, count, is_async=is_async)


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        run_child(*sys.argv[2:])
    else:
        main()
