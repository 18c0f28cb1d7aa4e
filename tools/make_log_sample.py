"""Make the sample log that later versions must open: python tools/make_log_sample.py tests/samples/log-0.3.0

It has every file that this version writes into a log's directory. It is made once a release and never again; a later release
gets a sample of its own beside it. `log-format-1` is what version 0.1 wrote. It takes half a minute: compaction and summaries
are made by the background work of an open log.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

import headstream as hs
from headstream.log.log import Log
from headstream.log.system.files import OsFiles
from headstream.log.upkeep.prefix_removal import remove_before
from headstream.testing.local_server import LocalServer

USER: Final = "clerk"
ERASED: Final = (2, 5)
"""Offsets of the removed messages of `shop/people`."""
CUT: Final = 3
"""The log start offset of `shop/events`, whose messages before it were deleted as Kafka's DeleteRecords does."""
_RETRY: Final = hs.Retry(10, delay="1h", max_delay="1h", order="skip", pause="9h", pause_attempts=4)
_PATIENCE_S: Final = 120.0


def make_sample(directory: Path) -> None:
    """Write a small log with each kind of file: what a server writes, then what a process with the directory does."""
    with LocalServer(directory, segment_bytes=4096) as server, hs.connect(server.url) as log:
        _send_orders(log)
        log.server.create_user(USER, "secret-of-the-sample")
        log.server.create_token("sample")
        with log.consumer("shop/orders", group="invoices", start="first", timeout_ms=1000) as consumer:
            consumer.poll(count=6)
            consumer.commit()
    with hs.connect(directory.absolute().as_uri(), segment_bytes=4096) as log:
        log.set_state("shop/orders", 1, [0], "poisoned", reason="cannot be read", by="sample")
        with log.consumer("shop/orders", name="billing", start="first") as reader:
            reader.poll(count=5)
            reader.commit()
        _fail_messages(log)
        _remove_messages(log)
        _compact(log)
        _wait(lambda: any(directory.rglob("*.summary")))
        log.create_topic("shop/events", kafka_headers="spring")
        _send(log, "shop/events", *(b"event %d" % number for number in range(5)))
    with closing(Log(str(directory.absolute()), OsFiles(), is_memory=False, segment_bytes=4096)) as opened:
        opened.start_writing("", 0)  # the log exists
        remove_before(opened, opened.snapshot()["shop"].topics["events"], 1, CUT)
    (directory / "headstream.lock").unlink()
    shutil.rmtree(directory / "runtime")  # of the running server: its settings, and a key that each server makes for itself


def _send_orders(log: hs.Client) -> None:
    log.create_topic("shop/orders", partitions=2, summary_headers=["attempt"])
    log.create_topic("shop/wide", limits="wide", fsync="always")
    with log.producer("shop/orders") as producer:
        for number in range(40):
            producer.send(b"order %d " % number + b"." * 200, key=b"customer %d" % (number % 7), headers={"attempt": number})
            producer.flush()
    with log.producer("shop/wide") as producer:
        producer.send(None, key=b"gone", headers={"note": ""})


def _fail_messages(log: hs.Client) -> None:
    """Fail four messages of a group, which is paused for it."""
    log.create_topic("shop/tasks")
    log.create_topic("shop/tasks.dead")
    _send(log, "shop/tasks", *(b"task %d" % number for number in range(9)))
    with log.consumer("shop/tasks", group="workers", on_error=_RETRY, dead_letter="shop/tasks.dead", timeout_ms=0) as consumer:
        for message in consumer:
            consumer.retry(message, reason="refused")


def _remove_messages(log: hs.Client) -> None:
    log.create_topic("shop/people", deletion_grace_us=0)
    _send(log, "shop/people", *(b"person %d" % number for number in range(8)))
    log.set_state("shop/people", 1, ERASED, "marked_for_deletion", reason="erased")
    log.remove_marked("shop/people", 1, reason="erased")


def _compact(log: hs.Client) -> None:
    log.create_topic("shop/prices", limits="wide", compaction_delay_us=0)
    with log.producer("shop/prices") as producer:
        for number in range(60):
            producer.send(b"price %d " % number + b"." * 200, key=b"article %d" % (number % 3))
            producer.flush()
    _wait(lambda: log.topic("shop/prices").messages_count < 40)


def _send(log: hs.Client, topic: str, *payloads: bytes) -> None:
    with log.producer(topic) as producer:
        for payload in payloads:
            producer.send(payload)


def _wait(is_done: Callable[[], bool]) -> None:
    until = time.monotonic() + _PATIENCE_S
    while not is_done():
        if time.monotonic() > until:
            raise TimeoutError("the log's background work did not come to an end")
        time.sleep(0.1)


if __name__ == "__main__":
    make_sample(Path(sys.argv[1]))
