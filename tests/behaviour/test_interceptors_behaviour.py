"""Interceptors of a client over every kind of log: hooks, their order, and the policies of errors."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

import pytest

import headstream as hs
from headstream.interceptors import Interceptor, guard
from tests.behaviour.conftest import Place, at


class Tagging(Interceptor):
    """Appends its tag to payloads, and takes it off again."""

    def __init__(self, tag: bytes) -> None:
        self.tag = tag

    def on_send(self, message: hs.Message) -> hs.Message:
        return replace(message, payload=(message.payload or b"") + self.tag, checksum=-1)

    def on_receive(self, message: hs.Message) -> hs.Message:
        payload = message.payload or b""
        assert payload.endswith(self.tag)
        return replace(message, payload=payload[: -len(self.tag)], checksum=-1)


class Failing:
    """Fails for the payload b"bad" in one hook; it is no subclass of Interceptor."""

    def __init__(self, hook: str) -> None:
        self.seen = 0
        setattr(self, hook, self._fail)

    def _fail(self, message: hs.Message) -> hs.Message:
        self.seen += 1
        if message.payload == b"bad":
            raise RuntimeError("as arranged")
        return message


class Witness:
    """Notes what is reported."""

    def __init__(self) -> None:
        self.acknowledged: list[tuple[hs.Message, Exception | None]] = []
        self.commits: list[tuple[str, dict[int, int]]] = []

    def on_acknowledged(self, message: hs.Message, error: Exception | None) -> None:
        self.acknowledged.append((message, error))

    def on_commit(self, topic: str, offsets: Mapping[int, int]) -> None:
        self.commits.append((topic, dict(offsets)))


def connect(place: Place, *interceptors: object) -> hs.Client:
    log = hs.connect(place.url, interceptors=interceptors, **place.options)
    place.clients.append(log)
    return log


def payloads(messages: list[hs.ReceivedMessage]) -> list[bytes | None]:
    return [message.payload for message in messages]


def test_interceptors_run_in_order_when_sending_and_in_reverse_when_receiving(place: Place) -> None:
    plain = place.connect()
    plain.create_topic("shop/orders")
    log = connect(place, Tagging(b"1"), Tagging(b"2"))
    with log.producer("shop/orders") as producer:
        producer.send(b"a")
        producer.send_many([b"b"])
    log.send("shop/orders", b"c")
    assert payloads(plain.poll("shop/orders")) == [b"a12", b"b12", b"c12"]
    assert payloads(log.poll("shop/orders")) == [b"a", b"b", b"c"]
    with log.consumer("shop/orders", timeout_ms=0) as consumer:
        assert [message.payload for message in consumer] == [b"a", b"b", b"c"]
    with log.consumer(["shop/*"], timeout_ms=0) as several:
        assert payloads(several.poll(10)) == [b"a", b"b", b"c"]
    assert all(message.verify() for message in log.poll("shop/orders"))


def test_on_send_changes_the_key_headers_id_and_partition(place: Place) -> None:
    class Routing:
        def on_send(self, message: hs.Message) -> hs.Message:
            assert (message.topic, message.partition) == ("shop/orders", None)
            return replace(message, key=b"k", headers=message.headers.with_(("n", hs.uint8(1))), id=7, partition=2)

    log = connect(place, Routing())
    log.create_topic("shop/orders", partitions=3)
    log.send("shop/orders", b"x", headers={"own": "yes"}, partition=hs.Partitioning.balanced())
    (message,) = log.poll("shop/orders")
    assert (message.partition, message.key, message.id) == (2, b"k", 7)
    assert message.headers == hs.Headers({"own": "yes", "n": hs.uint8(1)})


def test_on_acknowledged_sees_each_message_as_stored_before_flush_returns(place: Place) -> None:
    witness = Witness()
    log = connect(place, Tagging(b"!"), witness)
    log.create_topic("shop/orders", partitions=2)
    with log.producer("shop/orders") as producer:
        for number in range(10):
            producer.send(b"%d" % number, headers={"n": number}, partition=at(1) + number % 2)
        producer.flush()
        assert len(witness.acknowledged) == 10
    for message, error in witness.acknowledged:
        assert error is None
        assert message.offset is not None
        assert message.partition is not None
        (stored,) = place.connect().poll("shop/orders", message.partition, start=message.offset, count=1)
        assert (stored.payload, stored.headers, stored.timestamp) == (message.payload, message.headers, message.timestamp)


def test_on_acknowledged_sees_why_a_message_failed_and_the_producer_raises_it_too(place: Place) -> None:
    witness = Witness()
    log = connect(place, witness)
    log.create_topic("shop/orders")
    producer = log.producer("shop/orders")
    log.delete_topic("shop/orders")
    producer.send(b"x")
    with pytest.raises(hs.NotFoundError):
        producer.flush()
    ((message, error),) = witness.acknowledged
    assert (message.payload, message.offset) == (b"x", None)
    assert isinstance(error, hs.NotFoundError)
    producer.close()


def test_on_commit_sees_offsets_after_a_commit(place: Place) -> None:
    witness = Witness()
    log = connect(place, witness)
    log.create_topic("shop/orders")
    for payload in (b"a", b"b", b"c"):
        log.send("shop/orders", payload)
    with log.consumer("shop/orders", group="billing", timeout_ms=0) as consumer:
        assert next(consumer).payload == b"a"
        assert witness.commits == []
        assert next(consumer).payload == b"b"
    assert witness.commits == [("shop/orders", {at(1): 1}), ("shop/orders", {at(1): 2})]
    log.poll("shop/orders", start="next", consumer="reader", auto_commit=True)
    assert witness.commits[-1] == ("shop/orders", {at(1): 3})
    assert log.offsets("shop/orders", name="reader") == {at(1): 3}


def test_an_error_in_on_send_raises_and_accepts_no_message(place: Place) -> None:
    log = connect(place, Failing("on_send"))
    log.create_topic("shop/orders")
    with log.producer("shop/orders") as producer:
        producer.send(b"a")
        with pytest.raises(hs.InterceptorError, match=r"on_send of the interceptor Failing failed: RuntimeError: as arranged"):
            producer.send(b"bad")
        producer.send(b"b")
    assert payloads(log.poll("shop/orders")) == [b"a", b"b"]


def test_a_skipped_error_in_on_send_sends_the_message_as_it_was(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    log = connect(place, guard(Failing("on_send"), on_error="skip"), Tagging(b"!"))
    log.create_topic("shop/orders")
    log.send("shop/orders", b"bad")
    assert payloads(place.connect().poll("shop/orders")) == [b"bad!"]
    assert "on_send of the interceptor Failing failed and was skipped for a message for shop/orders" in caplog.text


def test_a_dead_letter_of_on_send_has_origin_and_reason(place: Place) -> None:
    log = connect(place, guard(Failing("on_send"), on_error="dead_letter", dead_letter="shop/dead"))
    log.create_topic("shop/orders")
    with log.producer("shop/orders") as producer:
        producer.send(b"bad", key=b"k", headers={"own": hs.uint8(1)})
        producer.send(b"good")
        producer.flush()
        (dead,) = place.connect().poll("shop/dead")
    assert payloads(log.poll("shop/orders")) == [b"good"]
    assert (dead.payload, dead.key, dead.headers["own"]) == (b"bad", b"k", hs.uint8(1))
    assert dead.headers["hs.origin.topic"] == "shop/orders"
    assert dead.headers["hs.reason"] == "on_send of Failing: RuntimeError: as arranged"


def test_an_error_in_on_receive_comes_again_until_a_seek_and_commits_nothing(place: Place) -> None:
    log = connect(place, Failing("on_receive"))
    log.create_topic("shop/orders")
    for payload in (b"a", b"bad", b"b"):
        log.send("shop/orders", payload)
    consumer = log.consumer("shop/orders", group="billing", timeout_ms=0)
    assert next(consumer).payload == b"a"
    for _ in range(3):
        with pytest.raises(hs.InterceptorError, match=rf"shop/orders, partition {at(1)}, offset 1"):
            next(consumer)
    assert log.offsets("shop/orders", "billing") == {at(1): 1}
    consumer.close()
    with log.consumer("shop/orders", group="billing", timeout_ms=0) as again:
        with pytest.raises(hs.InterceptorError):
            next(again)
        again.seek(at(1), 2)
        assert [message.payload for message in again] == [b"b"]
    assert log.offsets("shop/orders", "billing") == {at(1): 3}


def test_a_poll_returns_the_messages_before_an_error_in_on_receive_first(place: Place) -> None:
    log = connect(place, Failing("on_receive"))
    log.create_topic("shop/orders")
    for payload in (b"a", b"bad", b"b"):
        log.send("shop/orders", payload)
    with log.consumer("shop/orders", group="billing") as consumer:
        assert payloads(consumer.poll(10)) == [b"a"]
        consumer.commit()
        with pytest.raises(hs.InterceptorError):
            consumer.poll(10)
        consumer.commit()
        assert log.offsets("shop/orders", "billing") == {at(1): 1}
    options = {"start": "next", "consumer": "reader", "auto_commit": True}
    assert payloads(log.poll("shop/orders", **options)) == [b"a"]  # type: ignore[arg-type]
    with pytest.raises(hs.InterceptorError):
        log.poll("shop/orders", **options)  # type: ignore[arg-type]
    assert log.offsets("shop/orders", name="reader") == {at(1): 1}


def test_a_dead_letter_of_on_receive_is_stored_before_the_message_is_passed_over(place: Place) -> None:
    log = connect(place, guard(Failing("on_receive"), on_error="dead_letter", dead_letter="shop/dead"))
    log.create_topic("shop/orders")
    for payload in (b"bad", b"a", b"bad"):
        log.send("shop/orders", payload, headers={"n": 1})
    with log.consumer("shop/orders", group="billing", timeout_ms=0) as consumer:
        assert [message.payload for message in consumer] == [b"a"]
    assert log.offsets("shop/orders", "billing") == {at(1): 3}
    found = place.connect().poll("shop/dead")
    assert [message.headers["hs.origin.offset"].value for message in found] == [0, 2]
    assert payloads(found) == [b"bad", b"bad"]


def test_a_message_that_cannot_be_stored_as_a_dead_letter_is_not_passed_over(place: Place) -> None:
    log = connect(place, guard(Failing("on_receive"), on_error="dead_letter", dead_letter="shop/dead"))
    log.create_topic("shop/orders")
    log.create_topic("shop/dead", compaction_delay_us=0)  # which refuses messages without a key
    log.send("shop/orders", b"bad")
    with log.consumer("shop/orders", group="billing", timeout_ms=0) as consumer:
        for _ in range(2):
            with pytest.raises(hs.LimitError):
                next(consumer)
    assert log.offsets("shop/orders", "billing") == {}


def test_an_error_in_on_acknowledged_is_raised_by_the_next_call_and_the_message_is_stored(place: Place) -> None:
    class Broken:
        def on_acknowledged(self, message: hs.Message, error: Exception | None) -> None:
            raise RuntimeError("as arranged")

    log = connect(place, Broken())
    log.create_topic("shop/orders")
    producer = log.producer("shop/orders")
    receipt = producer.send(b"a")
    assert receipt.result().offset == 0
    with pytest.raises(hs.InterceptorError, match="on_acknowledged"):
        producer.flush()
    producer.send(b"b")
    with pytest.raises(hs.InterceptorError):
        producer.close()
    assert payloads(log.poll("shop/orders")) == [b"a", b"b"]


def test_an_error_in_on_commit_is_raised_after_the_commit(place: Place) -> None:
    class Broken:
        def on_commit(self, topic: str, offsets: Mapping[int, int]) -> None:
            raise RuntimeError("as arranged")

    log = connect(place, Broken())
    log.create_topic("shop/orders")
    for payload in (b"a", b"b"):
        log.send("shop/orders", payload)
    found = []
    with log.consumer("shop/orders", group="billing", timeout_ms=0) as consumer:
        for _ in range(4):
            with suppress(hs.InterceptorError, StopIteration):
                found.append(next(consumer).payload)
    assert found == [b"a", b"b"]
    assert log.offsets("shop/orders", "billing") == {at(1): 2}


def test_asynchronous_hooks_run_in_the_event_loop(place: Place) -> None:
    loops: list[tuple[str, object]] = []

    class Slow(Interceptor):
        async def on_send(self, message: hs.Message) -> hs.Message:
            await asyncio.sleep(0)
            loops.append(("send", asyncio.get_running_loop()))
            return replace(message, payload=(message.payload or b"") + b"!", checksum=-1)

        async def on_acknowledged(self, message: hs.Message, error: Exception | None) -> None:
            loops.append(("acknowledged", asyncio.get_running_loop()))

        async def on_receive(self, message: hs.Message) -> hs.Message:
            loops.append(("receive", asyncio.get_running_loop()))
            return replace(message, payload=(message.payload or b"")[:-1], checksum=-1)

        async def on_commit(self, topic: str, offsets: Mapping[int, int]) -> None:
            loops.append(("commit", asyncio.get_running_loop()))

    async def main() -> None:
        async with hs.connect_async(place.url, interceptors=[Slow()], **place.options) as log:
            await log.create_topic("shop/orders")
            async with log.producer("shop/orders") as producer:
                await producer.send(b"a")
                await producer.send_and_wait(b"b")
            await log.send("shop/orders", b"c")
            found = []
            async with log.consumer("shop/orders", group="billing", timeout_ms=0) as consumer:
                async for message in consumer:
                    found.append(message.payload)
            assert found == [b"a", b"b", b"c"]
            assert payloads(await log.poll("shop/orders")) == [b"a", b"b", b"c"]
            assert {loop for _, loop in loops} == {asyncio.get_running_loop()}
            assert {hook for hook, _ in loops} == {"send", "acknowledged", "receive", "commit"}

    with place.connect():
        asyncio.run(asyncio.wait_for(main(), 60))
    with place.connect() as log:
        assert payloads(log.poll("shop/orders")) == [b"a!", b"b!", b"c!"]


def test_a_context_variable_of_the_caller_reaches_on_send_of_an_asynchronous_client(place: Place) -> None:
    from contextvars import ContextVar

    request: ContextVar[str] = ContextVar("request", default="none")

    class Stamping(Interceptor):
        async def on_send(self, message: hs.Message) -> hs.Message:
            return replace(message, headers=message.headers.with_(("request", request.get())))

    async def send(log: hs.AsyncClient, name: str) -> None:
        request.set(name)
        await log.send("shop/orders", name.encode())

    async def main() -> None:
        async with hs.connect_async(place.url, interceptors=[Stamping()], **place.options) as log:
            await log.create_topic("shop/orders")
            await asyncio.gather(*(send(log, f"r{number}") for number in range(5)))
            for message in await log.poll("shop/orders"):
                assert message.headers["request"] == (message.payload or b"").decode()

    asyncio.run(asyncio.wait_for(main(), 60))


@pytest.mark.parametrize("mode", ["ordered", "shared"])
def test_attempts_and_dead_letters_work_behind_interceptors(place: Place, mode: str) -> None:
    log = connect(place, Tagging(b"!"))
    log.create_topic("shop/orders")
    for payload in (b"0", b"1", b"2"):
        log.send("shop/orders", payload)
    seen: list[tuple[bytes | None, int]] = []

    def process(message: hs.ReceivedMessage) -> None:
        seen.append((message.payload, message.attempt))
        if message.payload == b"1":
            raise ValueError("no")

    retry = hs.Retry(2, delay="0s", max_delay="0s")
    with log.consumer("shop/orders", group="g", mode=mode, on_error=retry, dead_letter="shop/dead", timeout_ms=0) as consumer:
        consumer.run(process)
    assert sorted(seen) == [(b"0", 1), (b"1", 1), (b"1", 2), (b"2", 1)]
    assert log.offsets("shop/orders", "g") == {1: 3}
    (letter,) = log.poll("shop/dead")
    assert letter.payload == b"1"  # the same bytes as the message's, from which the interceptor takes its tag
    (stored,) = place.connect().poll("shop/dead")
    assert stored.payload == b"1!"


@pytest.mark.parametrize("mode", ["ordered", "shared"])
def test_an_interceptor_that_fails_on_receiving_counts_as_an_attempt(place: Place, mode: str) -> None:
    place.connect().create_topic("shop/orders")
    for payload in (b"good", b"bad", b"last"):
        place.connect().send("shop/orders", payload)
    failing = Failing("on_receive")
    log = connect(place, failing)
    retry = hs.Retry(2, delay="0s", max_delay="0s")
    with log.consumer("shop/orders", group="g", mode=mode, on_error=retry, dead_letter="shop/dead", timeout_ms=0) as consumer:
        assert [message.payload for message in consumer] == [b"good", b"last"]
    assert failing.seen == 4  # the failing one twice
    (letter,) = place.connect().poll("shop/dead")
    assert letter.payload == b"bad"
