"""A log with messages of a person that are erased, and readers that look at it all the while."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

import headstream as hs

TOPICS = ["shop/orders", "shop/carts"]
"""The second one compacts."""
DEAD = "shop/dead"
PERSON = {topic: f"eve of {topic}" for topic in TOPICS}
"""Whose messages are erased: these bytes are in the key, the payload and a header of each of them, and of nobody else's."""
COUNT = 60
"""Messages of a partition, in segments of a dozen."""
SEGMENT_BYTES = 4096
END_S = 300.0

Place = tuple[str, int, int]
"""Topic, partition, offset."""
Content = dict[Place, tuple[bytes | None, bytes | None, int]]
"""The key, payload and state of messages."""


def is_of_person(number: int) -> bool:
    return number % 14 in {3, 4} or number == COUNT - 1


def fill(log: hs.Client, topic: str) -> None:
    with log.producer(topic, linger_ms=0) as producer:
        for partition in (1, 2):
            for number in range(COUNT):
                user = PERSON[topic] if is_of_person(number) else f"user-{number % 7}"
                payload = b"order %d of %s " % (number, user.encode()) + b"." * 200
                key = b"%s: %d %d" % (user.encode(), partition, number)
                producer.send(payload, key=key, headers={"user": user}, partition=partition)
    log.set_state(topic, 1, [3], "poisoned", reason="a test")
    log.set_state(topic, 2, [4, 5], "marked_for_deletion", reason="a mistake")  # one of the person, and one that is to stay


def make_template(directory: Path) -> None:
    """Make a log with messages of several people, in several segments, and some of them as dead letters.

    Args:
        directory: Its directory.
    """
    with hs.connect(directory.as_uri(), segment_bytes=SEGMENT_BYTES) as log:
        for topic in TOPICS:
            options = {"summary_headers": ["user"]} if topic == TOPICS[0] else {"compaction_delay_us": 10**12}
            log.create_topic(topic, partitions=2, **options)
            fill(log, topic)
        for topic in TOPICS:
            retry = hs.Retry(attempts=1)
            with log.consumer(topic, group="billing", on_error=retry, dead_letter=DEAD, timeout_ms=0) as consumer:
                for message in consumer:
                    if message.offset in range(2, 6):
                        consumer.reject(message, reason="unwanted")


def read_all(log: hs.Client) -> Content:
    """Return all messages in every state, checked."""
    found: Content = {}
    for topic in (*TOPICS, DEAD):
        for partition in log.topic(topic).partitions:
            for message in log.poll(topic, partition.number, start="first", count=1000, states=None):
                assert message.verify()
                assert message.offset is not None
                found[topic, partition.number, message.offset] = message.key, message.payload, message.state
    return found


def read_directory(directory: Path) -> Content:
    with hs.connect(directory.as_uri()) as log:
        return read_all(log)


def has_to_go(content: Content, topic: str) -> set[Place]:
    """Return the messages that an erasure of a topic removes: the person's there, and their dead letters."""
    going = {place for place, (key, _, _) in content.items() if key is not None and key.startswith(PERSON[topic].encode())}
    assert {place[0] for place in going} == {topic, DEAD}
    return going


def find_bytes(directory: Path, text: str) -> list[str]:
    """Return the files of a log that have a text.

    Another process reads them: one that reads a database which it has open loses its locks of it, and the next process to open
    that database truncates the index that the first one has in memory.
    """
    found = subprocess.run(["grep", "-rlF", text, directory], capture_output=True, text=True, check=False)
    assert found.returncode < 2 or "No such file" in found.stderr, found.stderr  # some files go while it reads
    return found.stdout.splitlines()


class Watcher:
    """Reads everything in turn while messages are erased: no other message is ever missing, and an erased one stays away.

    Args:
        look: Returns the messages that a reader gets, or None if it could not read all.
        expected: All messages that readers got before.
        going: Those that are erased.
    """

    def __init__(self, look: Callable[[], Content | None], expected: Content, going: set[Place]) -> None:
        self._look, self._expected, self._going = look, expected, going
        self._gone: set[Place] = set()
        self._is_over = threading.Event()
        self._failure: BaseException | None = None
        self._rounds = threading.Condition()
        self.rounds_count = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_over.is_set():
            try:
                found = self._look()
                if found is not None:
                    self._check(found)
            except BaseException as error:
                self._failure = error
            with self._rounds:
                self.rounds_count += 1
                self._rounds.notify_all()
            if self._failure is not None:
                return

    def _check(self, found: Content) -> None:
        missing = self._expected.keys() - found.keys()
        assert missing <= self._going, f"a reader misses {sorted(missing - self._going)[:3]}"
        assert not self._gone - missing, f"a reader gets again what was erased: {sorted(self._gone - missing)[:3]}"
        wrong = [place for place, (key, payload, _) in found.items() if self._expected[place][:2] != (key, payload)]
        assert not wrong, f"a reader gets other bytes at {wrong[:3]}"
        self._gone |= missing

    def stop(self, *, gone: set[Place] | None = None) -> None:
        """Let it read everything once more, and raise what it has found wrong; if all is erased, it has to miss that."""
        with self._rounds:
            wanted = self.rounds_count + 2  # the present round can have begun before
            assert self._rounds.wait_for(lambda: self.rounds_count >= wanted or self._failure, END_S), "the reader hangs"
        self._is_over.set()
        self._thread.join(END_S)
        if self._failure is not None:
            raise self._failure
        if gone is not None:
            assert self._gone == gone


@contextmanager
def watching(look: Callable[[], Content | None], content: Content, going: set[Place], *, to_end: bool = True) -> Iterator[None]:
    expected = {place: each for place, each in content.items() if each[2] == hs.MessageState.AVAILABLE}
    watcher = Watcher(look, expected, going & expected.keys())
    try:
        yield
    finally:
        watcher.stop(gone=going & expected.keys() if to_end else None)


def look_through(log: hs.Client) -> Content | None:
    """Return what a consumer without options gets; None while its server is down."""
    found: Content = {}
    try:
        for topic in (*TOPICS, DEAD):
            for partition in log.topic(topic).partitions:
                start = 0
                while start < partition.end_offset:  # a read from an offset needs no look at the directory
                    messages = log.poll(topic, partition.number, start=start, count=7)
                    for message in messages:
                        assert message.offset is not None
                        found[topic, partition.number, message.offset] = message.key, message.payload, message.state
                    start = (messages[-1].offset or 0) + 1 if messages else partition.end_offset
    except hs.HeadstreamError:
        return None
    return found


class KafkaReader:
    """A client of Kafka's that fetches all partitions from their beginnings to their ends, again and again.

    Args:
        port: Of the server.
    """

    def __init__(self, port: int) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": f"127.0.0.1:{port}",
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "iggy",
                "sasl.password": "iggy",
                "group.id": "kafka",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )

    def look(self) -> Content | None:
        """Return all messages, in their order."""
        places = [(topic, partition) for topic in (*TOPICS, DEAD) for partition in (1, 2) if (topic, partition) != (DEAD, 2)]
        self._consumer.assign([TopicPartition(name.replace("/", "."), at - 1, OFFSET_BEGINNING) for name, at in places])
        found: Content = {}
        ended: set[tuple[str, int]] = set()
        last: dict[tuple[str, int], int] = {}
        while len(ended) < len(places):
            message = self._consumer.poll(END_S)
            if message is None:
                raise AssertionError(f"Kafka's client gets nothing; it is at {last}")
            topic, partition = str(message.topic()).replace(".", "/"), (message.partition() or 0) + 1
            error = message.error()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    ended.add((topic, partition))
                continue
            offset = message.offset() or 0
            assert offset > last.get((topic, partition), -1), f"offset {offset} follows {last}"
            last[topic, partition] = offset
            key, payload = message.key(), message.value()
            assert not isinstance(key, str)
            assert not isinstance(payload, str)
            found[topic, partition, offset] = key, payload, hs.MessageState.AVAILABLE
        return found

    def close(self) -> None:
        """Leave the server."""
        self._consumer.close()
