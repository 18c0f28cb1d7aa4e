"""`headstream backup`: a copy of a log that a process writes to holds what was acknowledged, and verifies clean."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner

import headstream as hs
from headstream.broker.broker import Broker
from headstream.cli.main import cli
from headstream.log.checks.backup import Backup
from headstream.log.log import Log
from headstream.log.partition.segment_removal import drop_segment
from headstream.log.segments.layout import INDEX_SUFFIX, base_offsets
from headstream.log.system.files import OsFile, OsFiles
from headstream.log.upkeep.compaction import Compaction
from tests.behaviour.test_killed_writers import STRIDE, check_runs, find_damage, messages_of, numbers_of
from tests.support.log.busy_writer import KEYS, ORDERS, SEGMENT_BYTES, make_topics

ROOT = Path(__file__).resolve().parents[2]


class Heard:
    """What a busy writer has said until now."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._lines: list[list[str]] = []
        self._process = process
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with suppress(ValueError):  # the test has ended, and closed the pipe
            for line in self._process.stdout:
                self._lines.append(line.decode().split())

    def last(self, *words: str) -> int:
        """Return the last number said after these words, 0 where there is none yet."""
        numbers = [int(line[-1]) for line in list(self._lines) if line[: len(words)] == list(words)]
        return max(numbers, default=0)

    def states(self) -> dict[int, str]:
        return {int(line[1]): line[2] for line in list(self._lines) if line[0] == "state"}


def check_copy(url: str, owed: dict[str, int], states: dict[int, str]) -> None:
    assert not find_damage(url)
    with hs.connect(url, segment_bytes=SEGMENT_BYTES) as copy:
        epochs = []
        for partition in (1, 2):
            found = messages_of(copy, ORDERS, partition)
            numbers = numbers_of(found, b"s")
            check_runs(numbers)
            assert max(numbers) >= owed[f"sent {partition}"]
            epochs.append(numbers_of(found, b"e"))
        assert epochs[0] == epochs[1] == sorted(set(epochs[0]))
        assert max(epochs[0]) >= owed["staged"]
        once = numbers_of(messages_of(copy, "shop/once"))
        assert len(set(once)) == len(once)
        assert max(once) >= owed["once"]
        check_runs(numbers_of(messages_of(copy, "shop/short")))
        keyed = numbers_of(messages_of(copy, "shop/keyed"))
        assert {number % KEYS for number in keyed} == set(range(KEYS))
        assert max(keyed) >= owed["keyed"]
        recorded = {change.offset: change.reason for change in copy.states(ORDERS, 1)}
        shown = {message.offset for message in messages_of(copy, ORDERS) if message.state != hs.MessageState.AVAILABLE}
        assert shown == set(recorded)
        assert states.items() <= recorded.items()
        ends = {partition.number: partition.end_offset for partition in copy.topic(ORDERS).partitions}
        assert all(offset <= ends[number] for number, offset in copy.offsets(ORDERS, "g").items())
        with copy.producer(ORDERS) as producer:  # and it can be gone on with
            producer.send(b"more", partition=1)


def test_a_copy_made_beside_a_writer_that_does_everything_holds_what_was_acknowledged(tmp_path: Path) -> None:
    url = (tmp_path / "log").as_uri()
    with hs.connect(url, segment_bytes=SEGMENT_BYTES) as log:
        make_topics(log)
        identity = log.identity
    command = [sys.executable, "-m", "tests.support.log.busy_writer", url, str(STRIDE), "0"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
        heard = Heard(process)
        try:
            while not all(heard.last(word) for word in ("sent", "staged", "once", "keyed", "short", "state", "gone")):
                assert process.poll() is None
                time.sleep(0.02)
            for number in range(3):
                owed = {word: heard.last(*word.split()) for word in ("sent 1", "sent 2", "staged", "once", "keyed")}
                states = heard.states()
                target = tmp_path / f"copy-{number}"
                done = CliRunner().invoke(cli, ["backup", str(tmp_path / "log"), str(target)])
                assert done.exit_code == 0, done.output
                assert process.poll() is None
                os.kill(process.pid, signal.SIGSTOP)  # else the log, and the next copy, grow by all that this takes
                check_copy(target.as_uri(), owed, states)
                with hs.connect(target.as_uri()) as copy:
                    assert copy.identity != identity
                os.kill(process.pid, signal.SIGCONT)
        finally:
            os.kill(process.pid, signal.SIGKILL)


class MeanwhileFiles(OsFiles):
    """Files beside which something happens as soon as a segment of a topic is copied.

    Args:
        meanwhile: What.
    """

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        super().__init__()
        self._meanwhile: Callable[[], None] | None = meanwhile
        self.is_armed = False

    def open_write(self, path: str) -> OsFile:
        if self.is_armed and path.endswith(INDEX_SUFFIX) and self._meanwhile is not None:
            meanwhile, self._meanwhile = self._meanwhile, None
            meanwhile()
        return super().open_write(path)


def test_a_copy_has_the_last_message_of_each_key_whatever_is_appended_and_compacted_meanwhile(tmp_path: Path) -> None:
    """What was the last message of its key when the copy began goes, once a newer one is there: the copy has that one then."""
    root = str(tmp_path / "log")
    log = Log(root, OsFiles(), is_memory=False, segment_bytes=4096)
    broker = Broker(log)
    with hs.Client(broker) as client:
        client.create_topic("shop/keyed", compaction_delay_us=0)

        def send(begin: int) -> None:
            with client.producer("shop/keyed", linger_ms=0) as producer:
                for number in range(begin, begin + 200):
                    producer.send(b"%d" % number, key=b"%d" % (number % 5))

        def meanwhile() -> None:
            send(200)
            assert Compaction(log, lambda: 1 << 60).apply()

        send(0)
        files = MeanwhileFiles(meanwhile)
        backup = Backup(root, str(tmp_path / "copy"), files)
        files.is_armed = True
        backup.run(None)
    with hs.connect((tmp_path / "copy").as_uri()) as copy:
        assert {number % 5 for number in numbers_of(messages_of(copy, "shop/keyed"))} == set(range(5))


class DroppingFiles(OsFiles):
    """Files of which something is dropped, or added, before each look at the names in a partition's directory."""

    def __init__(self, before: list[Callable[[], None]]) -> None:
        super().__init__()
        self._before = before

    def list_names(self, directory: str) -> list[str] | None:
        if directory.endswith("/1/1/1") and self._before:
            self._before.pop(0)()
        return super().list_names(directory)


def test_a_copy_is_whole_when_the_segment_that_only_told_its_end_is_dropped_too(tmp_path: Path) -> None:
    root = str(tmp_path / "log")
    with hs.connect(f"file://{root}", segment_bytes=4096) as log:
        log.create_topic("shop/orders")
        place = Path(root) / "streams" / "1" / "1" / "1"

        def send() -> None:
            with log.producer("shop/orders", linger_ms=0) as producer:
                for number in range(400):
                    producer.send(b"%d" % number)

        def drop(count: int) -> None:
            for base in base_offsets([path.name for path in place.iterdir()])[:count]:
                drop_segment(str(place), base, 0, OsFiles())

        def drop_what_was_there() -> None:
            known = len(base_offsets([path.name for path in place.iterdir()]))
            send()
            drop(known)

        send()
        backup = Backup(root, str(tmp_path / "copy"), DroppingFiles([lambda: None, drop_what_was_there, lambda: drop(1)]))
        backup.run(None)
    assert not find_damage((tmp_path / "copy").as_uri())
    with hs.connect((tmp_path / "copy").as_uri()) as copy, copy.producer("shop/orders") as producer:
        producer.send(b"next")
        producer.flush()
        assert [message.payload for message in copy.poll("shop/orders")] == [b"next"]


def test_a_copy_keeps_the_identity_where_it_is_to_take_the_logs_place(tmp_path: Path) -> None:
    with hs.connect((tmp_path / "log").as_uri()) as log:
        log.create_topic("shop/orders")
        with log.producer("shop/orders") as producer:
            producer.send(b"one")
        log.set_state("shop/orders", 1, 0, "poisoned", reason="bad", by="me")
        identity = log.identity
    copied = ["backup", "--keep-identity", "--url", (tmp_path / "log").as_uri(), str(tmp_path / "copy"), "--output", "json"]
    done = CliRunner().invoke(cli, copied)
    assert done.exit_code == 0, done.output
    assert json.loads(done.output) == {"target": str(tmp_path / "copy"), "size_bytes": 48}
    with hs.connect((tmp_path / "copy").as_uri()) as copy:
        assert copy.identity == identity
        assert copy.states("shop/orders")[0].reason == "bad"
        assert copy.poll("shop/orders") == []
        assert [message.payload for message in copy.poll("shop/orders", states=None)] == [b"one"]


def test_backup_refuses_a_source_or_target_that_it_cannot_use(tmp_path: Path) -> None:
    with hs.connect((tmp_path / "log").as_uri()) as log:
        log.create_topic("shop/orders")
    root, files = str(tmp_path / "log"), OsFiles()
    with pytest.raises(hs.NotALogError, match="no log to copy"):
        Backup(str(tmp_path / "none"), str(tmp_path / "copy"), files)
    with pytest.raises(hs.InvalidOptionError, match="must be outside the log"):
        Backup(root, f"{root}/copy", files)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(hs.InvalidOptionError, match="must be empty"):
        Backup(root, str(tmp_path / "full"), files)
    assert not (tmp_path / "copy").exists()
    for arguments in (["copy"], ["--url", "memory://", "copy"], [root, "copy", "more"]):
        assert CliRunner().invoke(cli, ["backup", *arguments], env={"HEADSTREAM_URL": ""}).exit_code == 2


def test_a_partition_that_is_deleted_and_added_again_meanwhile_has_no_offsets_of_the_one_before(tmp_path: Path) -> None:
    root = str(tmp_path / "log")
    with hs.connect(f"file://{root}") as log:
        log.create_topic("shop/orders", partitions=2)

        def send(count: int) -> None:
            with log.producer("shop/orders", linger_ms=0) as producer:
                for number in range(count):
                    producer.send(b"%d" % number, partition=2)

        def make_anew() -> None:
            log.delete_partitions("shop/orders", 1)
            log.create_partitions("shop/orders", 1)
            send(30)

        send(130)
        with log.consumer("shop/orders", group="g", partitions=[2]) as consumer:
            assert len(consumer.poll(1000)) == 130
            consumer.commit()
        files = MeanwhileFiles(make_anew)
        backup = Backup(root, str(tmp_path / "copy"), files)
        files.is_armed = True
        backup.run(None)
    with hs.connect((tmp_path / "copy").as_uri()) as copy:
        assert copy.offsets("shop/orders", "g").get(2, 0) <= copy.topic("shop/orders").partitions[1].end_offset
        with copy.consumer("shop/orders", group="g", partitions=[2]) as consumer:
            assert len(consumer.poll(1000)) == 30


def test_a_log_on_a_read_only_mount_is_copied(tmp_path: Path) -> None:
    root, view, target = tmp_path / "log", tmp_path / "view", tmp_path / "copy"
    view.mkdir()
    with hs.connect(root.as_uri()) as log:
        log.create_topic("shop/orders")
        with log.producer("shop/orders") as producer:
            producer.send(b"x")
    mount = f"mount --bind {root} {view} && mount -o remount,ro,bind {view}"
    if subprocess.run(["unshare", "-m", "sh", "-c", mount], check=False, capture_output=True).returncode:
        pytest.skip("this user may not mount")
    command = f"{mount} && ! touch {view}/x 2>/dev/null && {sys.executable} -m headstream.cli backup {view} {target}"
    done = subprocess.run(["unshare", "-m", "sh", "-c", command], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with hs.connect(target.as_uri()) as copy:
        assert [message.payload for message in copy.poll("shop/orders")] == [b"x"]
