"""Topics that keep the last message of each key, and those that look for repeats, behind the back of who reads and writes."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import headstream as hs
from headstream.errors import OffsetOutOfRangeError
from headstream.log.upkeep.compaction import Compaction
from headstream.log.upkeep.retention import Retention
from tests.behaviour.conftest import KINDS, open_place
from tests.support.waiting import wait_until

TOPIC = "shop/prices"

READER = textwrap.dedent(
    """
    import json, sys
    import headstream as hs
    newest, offsets, rounds = {}, [], 0
    with hs.connect(sys.argv[1]) as log:
        print("ready", flush=True)
        while "end" not in newest:  # along with the writer, and now and then from the start
            rounds += 1
            with log.consumer("shop/prices", name=f"reader {rounds}", timeout_ms=20) as consumer:
                here = []
                for message in consumer:
                    here.append(message.offset)
                    newest[message.key.decode()] = message.payload.decode()
                    if len(here) == 500 * rounds:
                        break
        assert here == sorted(set(here)), here
    print(json.dumps([newest, rounds]))
    """
)


@pytest.fixture(params=KINDS)
def log(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[hs.Client]:
    monkeypatch.setattr(Compaction, "interval_s", 0.01)
    with open_place(request.param, tmp_path, segment_bytes=4096) as place:
        log = place.connect()
        log.create_topic(TOPIC, limits="wide")
        yield log


def send(log: hs.Client, *pairs: tuple[bytes, bytes | None]) -> None:
    with log.producer(TOPIC, batch_count=3) as producer:
        for key, payload in pairs:
            producer.send(payload, key=key)


def test_the_last_of_each_key_is_what_is_left(log: hs.Client) -> None:
    send(log, *((b"%d" % (number % 7), b"%04d" % number * 20) for number in range(200)), (b"0", None))
    assert log.poll(TOPIC, consumer="me", count=5, auto_commit=True)[-1].offset == 4
    log.set_state(TOPIC, 1, [198], "poisoned")
    log.update_topic(TOPIC, compaction_delay_us=10**12)
    wait_until(lambda: log.topic(TOPIC).messages_count == 7)
    kept = [193, 194, 195, 197, 198, 199, 200]
    assert [message.offset for message in log.poll(TOPIC, start="first", count=100, states=None)] == kept
    assert [message.offset for message in log.poll(TOPIC, consumer="me", count=100)] == [each for each in kept if each != 198]
    assert [message.offset for message in log.poll(TOPIC, start="last", count=3, states=None)] == kept[-3:]
    assert [change.offset for change in log.states(TOPIC)] == [198]
    with pytest.raises(OffsetOutOfRangeError, match="the message at offset 7 no longer exists"):
        log.set_state(TOPIC, 1, [7], "poisoned")
    assert [message.offset for message in log.consumer(TOPIC, group="all", timeout_ms=0)] == [
        each for each in kept if each != 198
    ]
    log.set_state(TOPIC, 1, [197], "marked_for_deletion")
    log.update_topic(TOPIC, compaction_delay_us=0, deletion_grace_us=0)  # now the null payload goes, and what is marked
    until = time.monotonic() + 120
    while log.topic(TOPIC).messages_count != 6 and time.monotonic() < until:
        send(log, *((b"9", b"x" * 1000) for _ in range(6)))  # as much as makes another pass due, whenever the last one was
        time.sleep(0.1)
    newest = log.topic(TOPIC).partitions[0].end_offset - 1
    assert [message.offset for message in log.poll(TOPIC, count=100, states=None)] == [193, 194, 195, 198, 199, newest]
    wait_until(lambda: [change.offset for change in log.states(TOPIC)] == [198])  # forgotten a moment after the message has gone


def test_repeats_are_dropped_where_that_is_asked_for(log: hs.Client) -> None:
    log.update_topic(TOPIC, deduplication_count=100)
    for _ in range(2):
        with log.producer(TOPIC) as producer:
            for number in range(1, 11):
                producer.send(b"%d" % number, id=number)
    assert log.topic(TOPIC).messages_count == 10


def test_a_message_without_a_key_is_refused(log: hs.Client) -> None:
    before = log.producer(TOPIC)
    log.update_topic(TOPIC, compaction_delay_us=0)
    with log.producer(TOPIC) as producer:
        with pytest.raises(hs.LimitError, match="has no key"):
            producer.send(b"x")
        producer.send(b"x", key=b"1")  # the producer goes on
    before.send(b"x")  # it was made when none was needed: the log refuses it
    with pytest.raises(hs.LimitError, match="has no key"):
        before.flush()
    before.close()
    assert log.topic(TOPIC).messages_count == 1


def test_retention_and_compaction_go_on_side_by_side(log: hs.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Retention, "interval_s", 0.01)
    log.update_topic(TOPIC, compaction_delay_us=0, retention_bytes=12_000)
    for number in range(0, 1200, 100):
        send(log, *((b"%d" % (each % 100), b"%04d" % each * 25) for each in range(number, number + 100)))
    wait_until(lambda: log.topic(TOPIC).size_bytes <= 12_000 + 4096)
    found = [message.offset or 0 for message in log.poll(TOPIC, start="first", count=10_000)]
    first = log.topic(TOPIC).partitions[0].first_offset
    newest = {offset % 100: offset for offset in found}
    assert found == sorted(set(found))
    assert found[-1] == 1199
    assert {offset for offset in range(1100, 1200) if offset >= first} <= set(newest.values())


def test_another_process_reads_while_passes_come_and_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Compaction, "interval_s", 0.005)
    url = (tmp_path / "log").as_uri()
    newest: dict[str, str] = {}
    with hs.connect(url, segment_bytes=4096) as log:
        log.create_topic(TOPIC, limits="wide", compaction_delay_us=10**12)
        child = subprocess.Popen([sys.executable, "-c", READER, url], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        for number in range(6000):
            newest[str(number % 37)] = f"{number:04d}" * 10
            if number % 50 == 49:
                send(log, *((key.encode(), value.encode()) for key, value in newest.items()))
        wait_until(lambda: log.topic(TOPIC).messages_count < 120 * 37 / 2, "nothing is compacted while the other process reads")
        newest["end"] = "end"
        send(log, (b"end", b"end"))
        output, _ = child.communicate(timeout=300)
        assert child.returncode == 0
        seen, rounds = json.loads(output)
        assert (seen, rounds > 1) == (newest, True)
        assert log.topic(TOPIC).messages_count < 120 * 37 / 2, "nothing was compacted while the other process read"
