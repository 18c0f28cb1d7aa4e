"""Producer: what is sent is stored when flush() returns, and whatever fails is heard of."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

import headstream as hs
from headstream.broker.broker import Broker
from headstream.core.codec.binary import decode_sent, encode_sent
from headstream.core.codec.buffer import BytesLike
from headstream.core.model.identifiers import TopicName
from headstream.core.model.producers import Appended, BatchNumber
from headstream.log.opening import open_memory
from tests.support.crashes import fail_with
from tests.support.waiting import run_together


class Gate:
    """The messages of a broker, behind a gate that can be closed, and a way to make sending fail."""

    def __init__(self, broker: Broker) -> None:
        self._messages = broker.messages
        self.is_open = threading.Event()
        self.is_open.set()
        self.arrived = threading.Semaphore(0)
        self.error: Exception | None = None
        self.batches: list[tuple[int, list[bytes | None]]] = []

    def append(
        self, topic: TopicName, partition: int, batch: BytesLike, number: BatchNumber | None = None, **options: Any
    ) -> Appended:
        self.arrived.release()
        self.is_open.wait()
        if self.error is not None:
            raise self.error
        self.batches.append((partition, [message.payload for message in decode_sent(batch)]))
        return self._messages.append(topic, partition, batch, number, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._messages, name)


class Gated:
    """A client over a broker in memory, with a gate before its messages."""

    def __init__(self) -> None:
        broker = Broker(open_memory())
        self.gate = Gate(broker)
        broker.messages = self.gate  # type: ignore[assignment]
        self.log = hs.Client(broker)
        self.log.create_topic("shop/orders", partitions=2)

    def stored(self) -> list[bytes | None]:
        return [m.payload for p in (1, 2) for m in self.log.poll("shop/orders", p, count=10_000)]


@pytest.fixture
def gated() -> Iterator[Gated]:
    gated = Gated()
    yield gated
    gated.gate.is_open.set()


@pytest.fixture
def log() -> Iterator[hs.Client]:
    with hs.connect("memory://") as log:
        log.create_topic("shop/orders")
        log.create_topic("shop/wide", limits="wide")
        yield log


def test_flush_returns_when_everything_is_stored(gated: Gated) -> None:
    with gated.log.producer("shop/orders", linger_ms=60_000) as producer:
        for number in range(10):
            producer.send(b"%d" % number, partition=1)
        assert gated.stored() == []
        producer.flush()
        assert gated.stored() == [b"%d" % number for number in range(10)]
        producer.flush()
    assert len(gated.gate.batches) == 1


def test_messages_go_by_themselves_after_the_linger(gated: Gated) -> None:
    with gated.log.producer("shop/orders", linger_ms=1) as producer:
        for number in range(3):
            producer.send(b"%d" % number)
            assert gated.gate.arrived.acquire(timeout=60)
    assert sorted(gated.stored(), key=bytes) == [b"0", b"1", b"2"]  # type: ignore[arg-type]


def test_a_full_batch_goes_without_waiting(gated: Gated) -> None:
    with gated.log.producer("shop/orders", linger_ms=60_000, batch_count=3) as producer:
        for number in range(3):
            producer.send(b"%d" % number)
        assert gated.gate.arrived.acquire(timeout=60)


def test_leaving_the_body_flushes_also_when_it_fails(gated: Gated) -> None:
    def send_and_fail() -> None:
        with gated.log.producer("shop/orders", linger_ms=60_000) as producer:
            producer.send(b"sent before")
            raise RuntimeError("body")

    with pytest.raises(RuntimeError, match="body"):
        send_and_fail()
    assert gated.stored() == [b"sent before"]


def test_send_waits_while_the_buffer_is_full(gated: Gated) -> None:
    gated.gate.is_open.clear()
    progress: list[int] = []
    with gated.log.producer("shop/orders", linger_ms=0, buffer_bytes=200) as producer:

        def send() -> None:
            for number in range(20):
                producer.send(b"x" * 76)  # 100 bytes as sent
                progress.append(number)

        thread = threading.Thread(target=send)
        thread.start()
        assert gated.gate.arrived.acquire(timeout=60)
        thread.join(0.05)
        assert thread.is_alive()
        assert len(progress) == 2
        assert producer.is_full
        gated.gate.is_open.set()
        thread.join(60)
        assert len(progress) == 20
    assert len(gated.stored()) == 20


@pytest.mark.parametrize("call", ["send", "flush", "close"])
def test_an_error_in_the_background_is_raised_by_the_next_call(gated: Gated, call: str) -> None:
    gated.gate.error = hs.StorageError("no room")
    producer = gated.log.producer("shop/orders", linger_ms=0)
    producer.send(b"lost")
    while not producer._failed:
        threading.Event().wait(0.001)
    arguments = (b"next",) if call == "send" else ()
    with pytest.raises(hs.StorageError, match="no room") as caught:
        getattr(producer, call)(*arguments)
    assert caught.value.__notes__ == [
        "1 messages sent to shop/orders were not stored: error.messages contains them; "
        "the producer continues with other messages."
    ]
    assert [(message.payload, message.topic) for message in caught.value.messages] == [(b"lost", "shop/orders")]
    assert not caught.value.in_doubt
    producer.close()
    assert gated.stored() == []


def test_flush_raises_an_error_that_comes_while_it_waits(gated: Gated) -> None:
    gated.gate.error = hs.StorageError("no room")
    producer = gated.log.producer("shop/orders", linger_ms=60_000)
    producer.send(b"lost")
    with pytest.raises(hs.StorageError, match="no room"):
        producer.flush()
    producer.close()


def test_an_error_that_nobody_heard_of_is_raised_when_the_body_is_left(gated: Gated) -> None:
    gated.gate.error = ValueError("not even one of ours")
    with pytest.raises(ValueError, match="not even one of ours"), gated.log.producer("shop/orders") as producer:
        producer.send(b"lost")


def test_the_bodys_own_error_comes_first(gated: Gated) -> None:
    gated.gate.error = hs.StorageError("no room")

    def send_and_fail() -> None:
        with gated.log.producer("shop/orders") as producer:
            producer.send(b"lost")
            raise RuntimeError("body")

    with pytest.raises(RuntimeError, match="body") as caught:
        send_and_fail()
    assert caught.value.__notes__ == ["Closing the producer failed too: no room"]


def test_an_interrupted_flush_loses_nothing(gated: Gated, monkeypatch: pytest.MonkeyPatch) -> None:
    gated.gate.is_open.clear()
    producer = gated.log.producer("shop/orders", linger_ms=60_000)
    for number in range(5):
        producer.send(b"%d" % number, partition=1)

    with monkeypatch.context() as patch:
        patch.setattr(producer, "_wait_until_done", fail_with(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            producer.flush()
        with pytest.raises(KeyboardInterrupt):
            producer.close()
    gated.gate.is_open.set()
    producer.close()
    assert gated.stored() == [b"%d" % number for number in range(5)]


def test_an_interrupted_close_of_the_log_loses_nothing(gated: Gated, monkeypatch: pytest.MonkeyPatch) -> None:
    gated.gate.is_open.clear()
    producer = gated.log.producer("shop/orders", linger_ms=60_000)
    producer.send(b"x", partition=1)

    with monkeypatch.context() as patch:
        patch.setattr(producer, "_wait_until_done", fail_with(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            gated.log.close()
    gated.gate.is_open.set()
    producer.close()  # as is done when the program ends
    assert gated.stored() == [b"x"]


def test_closed_producers_refuse(log: hs.Client) -> None:
    producer = log.producer("shop/orders")
    producer.close()
    producer.close()
    with pytest.raises(hs.ClosedError, match="the producer is closed"):
        producer.send(b"x")
    with pytest.raises(hs.ClosedError, match="the producer is closed"):
        producer.flush()


@pytest.mark.parametrize("name", ["hs.key", "hs.null", "hs.anything", "hs."])
def test_send_refuses_reserved_headers(log: hs.Client, name: str) -> None:
    with log.producer("shop/orders") as producer, pytest.raises(hs.HeaderError, match=f"the header '{name}' is reserved"):
        producer.send(b"x", headers={"fine": 1, name: b"y"})
    assert log.topic("shop/orders").messages_count == 0


def test_send_takes_the_senders_time_as_a_header(log: hs.Client) -> None:
    with log.producer("shop/orders") as producer:
        producer.send(b"x", headers={"hs.timestamp": hs.uint64(5), "hsx": 1})
    assert log.poll("shop/orders")[0].headers.to_dict() == {"hs.timestamp": 5, "hsx": 1}


@pytest.mark.parametrize(
    ("message", "error", "text"),
    [
        ({"payload": "text"}, hs.InvalidInputError, r"a payload must be bytes or None, not str\. Encode it"),
        ({"payload": 5}, hs.InvalidInputError, "not int"),
        ({"payload": b"x", "key": "k"}, hs.InvalidInputError, "a key must be bytes, not str"),
        ({"payload": b"x", "id": -1}, hs.InvalidInputError, "message id -1"),
        ({"payload": b"x", "id": 1 << 128}, hs.InvalidInputError, "message id"),
        ({"payload": b"x", "partition": 0}, hs.PartitionNotFoundError, "no partition 0"),
        ({"payload": b"x", "partition": 2}, hs.PartitionNotFoundError, r"no partition 2\. Use a partition from 1 to 1"),
        ({"payload": b"x", "headers": {"a": object()}}, hs.HeaderError, "object has no header kind"),
        ({"payload": b""}, hs.LimitError, "payload"),
        ({"payload": None}, hs.LimitError, "payload"),
        ({"payload": b"x", "headers": {"note": "v" * 256}}, hs.LimitError, "note"),
        ({"payload": b"x", "headers": {"note": None}}, hs.LimitError, "note"),
        ({"payload": b"x", "headers": {"note": hs.char("v")}}, hs.LimitError, "note"),
        ({"payload": b"x", "key": b"k" * 256}, hs.LimitError, "a message key of 256 bytes .* allow 1 to 255"),
        ({"payload": b"x", "key": b""}, hs.LimitError, "a message key of 0 bytes"),
        ({"payload": bytes(10_000_001)}, hs.LimitError, "payload"),
        ({"payload": bytes(64 << 20)}, hs.LimitError, "the message has 67108888 bytes"),
    ],
)
def test_send_refuses_one_message_by_name_and_the_others_go(
    log: hs.Client, message: dict[str, Any], error: type[Exception], text: str
) -> None:
    with log.producer("shop/orders") as producer:
        producer.send(b"before")
        with pytest.raises(error, match=text):
            producer.send(message.pop("payload"), **message)
        producer.send(b"after")
    assert [m.payload for m in log.poll("shop/orders")] == [b"before", b"after"]


def test_wide_topics_take_null_and_empty(log: hs.Client) -> None:
    with log.producer("shop/wide") as producer:
        producer.send(None, key=b"", headers={"n": None, "c": hs.char("x"), "e": "", "l": "v" * 65_536})
        producer.send(b"")
        producer.send(None)
        with pytest.raises(hs.LimitError, match="65536"):
            producer.send(b"x", headers={"l": "v" * 65_537})
    first, second, third = log.poll("shop/wide")
    assert (first.payload, first.key, second.payload, third.payload, third.key) == (None, b"", b"", None, None)
    assert first.headers["n"] == hs.null()
    assert first.headers["l"].as_string() == "v" * 65_536


def test_many_header_values_are_spread_over_sends(log: hs.Client) -> None:
    with log.producer("shop/orders", linger_ms=60_000) as producer:
        for _ in range(1000):
            producer.send(b"x", headers={"a": "v" * 200})
    assert log.topic("shop/orders").messages_count == 1000


def test_payloads_are_any_buffer(log: hs.Client) -> None:
    with log.producer("shop/orders") as producer:
        producer.send(bytearray(b"array"))
        producer.send(memoryview(b"a view")[2:])
    assert [m.payload for m in log.poll("shop/orders")] == [b"array", b"view"]


def test_send_by_many_threads_stores_every_message(log: hs.Client) -> None:
    with log.producer("shop/orders", linger_ms=1, batch_count=50) as producer:

        def send(thread: int) -> None:
            for number in range(500):
                producer.send(b"%d %d" % (thread, number))

        run_together(*(partial(send, number) for number in range(4)))
    stored = [(m.payload or b"").split() for m in log.poll("shop/orders", count=5000)]
    for sender in range(4):
        assert [int(number) for who, number in stored if int(who) == sender] == list(range(500))


def test_the_bodys_own_error_comes_before_that_of_closing_the_log(gated: Gated) -> None:
    gated.gate.error = hs.StorageError("no room")

    def send_and_fail() -> None:
        with gated.log as log:
            log.producer("shop/orders", linger_ms=60_000).send(b"lost")
            raise RuntimeError("body")

    with pytest.raises(RuntimeError, match="body") as caught:
        send_and_fail()
    assert caught.value.__notes__ == ["Closing the log failed too: no room"]


@pytest.mark.parametrize("key", [None, b"", b"k", b"42"])
@pytest.mark.parametrize("payload", [None, b"", b"payload"])
@pytest.mark.parametrize("headers", [None, {}, {"a": hs.uint8(3), "b": None}, [("a", 1), ("a", "two")]])
def test_send_encodes_as_the_codec_does(log: hs.Client, key: bytes | None, payload: bytes | None, headers: Any) -> None:
    with log.producer("shop/wide") as producer:
        producer.send(payload, key=key, headers=headers, id=5)
        encoded, _ = producer._encode(payload, key, headers, 5)
    expected = hs.Message(payload=payload, key=key, headers=hs.Headers(headers or ()), id=5)
    assert encoded == encode_sent([expected])
    (message,) = log.poll("shop/wide")
    assert (message.payload, message.key, message.headers, message.id) == (payload, key, expected.headers, 5)
