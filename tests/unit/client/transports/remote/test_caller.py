"""Commands over connections that break: what is asked again, what is not, and what is said of it."""

from __future__ import annotations

from typing import Any

import pytest

import headstream as hs
from headstream.core.model.identifiers import TopicName
from headstream.core.wire.commands.streams import CreateStream
from headstream.core.wire.extensions import groups
from headstream.core.wire.extensions.messages import AppendMessages, FetchedMessages, FetchMessages, FirstOffset
from headstream.core.wire.extensions.producers import AppendedBatch, AppendNumbered, InitProducer, NewProducer
from headstream.core.wire.extensions.topic_options import GetOpenTopic, ListOpenTopics, OpenPartition, OpenTopic
from headstream.core.wire.records import Command
from headstream.core.wire.refusals import refusal
from headstream.errors import OutcomeUnknownError, SequenceError
from tests.support.messages.batches import sent, stored
from tests.support.server.scripted_server import HANG_UP, SILENCE, ScriptedServer


def topic_of(deduplication_count: int | None = None) -> OpenTopic:
    partitions = (OpenPartition(1, 0, 100, 0, 0, 1),)
    return OpenTopic(
        "shop", "orders", 1, 0, hs.Limits.IGGY, hs.Fsync.INTERVAL, None, None, None, deduplication_count, "1/1", partitions
    )


class Script:
    """Answers one after the other to commands of a kind; the last one again and again."""

    def __init__(self, kind: type[Command[Any]], *answers: Any, topic: OpenTopic | None = None) -> None:
        self._kind = kind
        self._answers = list(answers)
        self._topic = topic or topic_of()

    def __call__(self, command: Command[Any]) -> Any:
        if isinstance(command, GetOpenTopic):
            return self._topic
        if isinstance(command, InitProducer) and self._kind is not AppendNumbered:
            raise refusal(3)  # as an older server does
        if isinstance(command, InitProducer):
            return NewProducer(7, 0)
        if not isinstance(command, self._kind):
            return None
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_read_requests_are_repeated_over_a_new_connection() -> None:
    with ScriptedServer(Script(ListOpenTopics, HANG_UP, HANG_UP, ())) as server, hs.connect(server.url) as log:
        assert log.topics() == []
        assert len(server.commands) == 3
        assert len(server.logins) == 3


def test_request_that_is_not_idempotent_is_not_repeated_and_raises_unknown_outcome() -> None:
    with (
        ScriptedServer(Script(CreateStream, HANG_UP)) as server,
        hs.connect(server.url) as log,
        pytest.raises(
            OutcomeUnknownError, match=r"broke: the server closed the connection .*The outcome of the command is unknown"
        ),
    ):
        log.create_stream("shop")
    assert len(server.commands) == 1


@pytest.mark.parametrize(("remembered", "id", "count"), [(100, 7, 2), (None, 7, 1), (100, 0, 1)])
def test_a_send_without_an_answer_is_repeated_only_where_repeats_are_found(remembered: int | None, id: int, count: int) -> None:
    script = Script(AppendMessages, HANG_UP, FirstOffset(5), topic=topic_of(remembered))
    with ScriptedServer(script) as server, hs.connect(server.url) as log:
        send = log._transport.messages.send
        name = TopicName("shop", "orders")
        batch = sent(b"x", message_id=id)
        if count == 2:
            assert send(name, 1, batch) == 5
        else:
            with pytest.raises(OutcomeUnknownError):
                send(name, 1, batch)
    appends = [command for command in server.commands if isinstance(command, AppendMessages)]
    assert [bytes(command.messages) for command in appends] == [batch] * count


@pytest.mark.parametrize("remembered", [100, None])
def test_a_send_without_an_answer_stays_in_doubt_when_the_server_does_not_come_back(remembered: int | None) -> None:
    script = Script(AppendMessages, SILENCE, topic=topic_of(remembered))
    with ScriptedServer(script) as server, hs.connect(server.url + "?timeout_ms=1000&retry_timeout_ms=1000") as log:
        producer = log.producer("shop/orders", batch_count=2, linger_ms=60_000)
        server.stop_listening()
        for payload in (b"a", b"b", b"c"):
            producer.send(payload)
        with pytest.raises(OutcomeUnknownError, match="no answer within 1000 ms") as caught:
            producer.flush()
        assert caught.value.__notes__ == [
            "2 messages sent to shop/orders may or may not be stored, 1 messages sent to shop/orders were not stored: "
            "error.messages contains them; the producer continues with other messages."
        ]
        assert [message.payload for message in caught.value.messages] == [b"a", b"b", b"c"]
        assert [message.payload for message in caught.value.in_doubt] == [b"a", b"b"]


def test_a_producer_gives_ids_where_the_topic_looks_for_repeats() -> None:
    script = Script(AppendMessages, HANG_UP, FirstOffset(0), topic=topic_of(1000))
    with ScriptedServer(script) as server, hs.connect(server.url) as log:
        with log.producer("shop/orders") as producer:
            producer.send(b"a")
        first, second = (bytes(c.messages) for c in server.commands if isinstance(c, AppendMessages))
        assert first == second
        assert first[:16] != bytes(16)


def numbers_of(server: ScriptedServer) -> list[tuple[int, int, int]]:
    return [(c.producer_id, c.epoch, c.sequence) for c in server.commands if isinstance(c, AppendNumbered)]


def test_a_numbered_batch_without_an_answer_is_sent_again_with_its_number() -> None:
    script = Script(AppendNumbered, HANG_UP, AppendedBatch(10, 5, 2, True), AppendedBatch(12, 6, 1, False))
    with (
        ScriptedServer(script) as server,
        hs.connect(server.url) as log,
        log.producer("shop/orders", linger_ms=60_000) as producer,
    ):
        first = producer.send_many([b"a", b"b"])
        assert first[1].result(60) == (1, 11, 5)
        assert producer.send_and_wait(b"c") == (1, 12, 6)
        assert numbers_of(server) == [(7, 0, 0), (7, 0, 0), (7, 0, 2)]
        assert producer.stats().repeated_count == 1


def test_a_numbered_batch_that_is_given_up_in_doubt_ends_its_epoch() -> None:
    script = Script(AppendNumbered, SILENCE, AppendedBatch(10, 5, 1, False))
    with ScriptedServer(script) as server, hs.connect(server.url) as log:
        with log.producer("shop/orders", delivery_timeout_ms=1500) as producer:
            doubtful = producer.send(b"a")
            with pytest.raises(OutcomeUnknownError, match="no answer within") as caught:
                doubtful.result(60)
            assert [message.payload for message in caught.value.in_doubt] == [b"a"]
            assert producer.send_and_wait(b"b") == (1, 10, 5)  # and what a receipt has raised is not raised again
        assert numbers_of(server)[-1] == (7, 1, 0)


def test_a_refusal_after_a_broken_connection_leaves_the_batch_in_doubt() -> None:
    script = Script(AppendNumbered, HANG_UP, refusal(41))
    with (
        ScriptedServer(script) as server,
        hs.connect(server.url) as log,
        log.producer("shop/orders") as producer,
        pytest.raises(OutcomeUnknownError),
    ):
        producer.send_and_wait(b"a")


def test_a_batch_that_does_not_follow_is_sent_as_the_first_of_another_producer() -> None:
    script = Script(AppendNumbered, SequenceError("5 is expected"), AppendedBatch(0, 5, 1, False))
    with ScriptedServer(script) as server, hs.connect(server.url) as log, log.producer("shop/orders") as producer:
        assert producer.send_and_wait(b"a").offset == 0
        assert sum(isinstance(command, InitProducer) for command in server.commands) == 2


def test_an_older_server_is_sent_to_without_numbers_and_only_the_batch_in_doubt_is_in_doubt() -> None:
    script = Script(AppendMessages, HANG_UP, FirstOffset(5))
    with ScriptedServer(script) as server, hs.connect(server.url) as log, log.producer("shop/orders") as producer:
        with pytest.raises(OutcomeUnknownError) as caught:
            producer.send_and_wait(b"a")
        assert [message.payload for message in caught.value.in_doubt] == [b"a"]
        assert producer.send_and_wait(b"b") == (1, 5, None)


def fetched(*messages: bytes, next_offset: int, end_offset: int = 100) -> FetchedMessages:
    return FetchedMessages(1, end_offset, next_offset, 0, len(messages), b"".join(messages))


def test_a_wrong_payload_is_polled_again_once_and_then_named() -> None:
    good = stored(b"payload")
    bad = good[:-1] + b"X"
    with ScriptedServer(Script(FetchMessages, fetched(bad, next_offset=1), fetched(good, next_offset=1))) as server:
        with hs.connect(server.url) as log:
            assert [message.payload for message in log.poll("shop/orders", 1)] == [b"payload"]
        assert len(server.commands) == 2
    before, behind = stored(b"before", offset=0), stored(b"behind", offset=2)
    good = stored(b"payload", offset=1)
    script = Script(FetchMessages, fetched(before, good[:-1] + b"X", behind, next_offset=3), fetched(good, behind, next_offset=3))
    with ScriptedServer(script) as server, hs.connect(server.url) as log:
        assert [message.payload for message in log.poll("shop/orders", 1, count=3)] == [b"before", b"payload", b"behind"]
        asked = [(command.value, command.count) for command in server.commands if isinstance(command, FetchMessages)]
        assert asked == [(0, 3), (1, 2)]
    with ScriptedServer(Script(FetchMessages, fetched(bad, next_offset=1))) as server, hs.connect(server.url) as log:
        with pytest.raises(hs.ChecksumError, match=r"offset 0 .*\(shop/orders, partition 1\)"):
            log.poll("shop/orders", 1)
        assert len(server.commands) == 2


@pytest.mark.parametrize("gone", [1, 5])
def test_a_member_that_is_gone_again_before_its_first_report_joins_again(gone: int) -> None:
    reports: list[int] = []

    def answer(command: Command[Any]) -> Any:
        if isinstance(command, GetOpenTopic):
            return topic_of()
        if isinstance(command, groups.EnterGroup):
            return groups.NewMember(len(reports))
        if isinstance(command, groups.ReportMember):
            reports.append(command.member)
            if len(reports) <= gone:
                raise hs.ClosedError("there is no such member")
            return groups.MemberAssignment(1, {1: 1}, {})
        if isinstance(command, groups.ListOffsets):
            return groups.CommittedOffsets({1: 5})
        return None

    with (
        ScriptedServer(answer) as server,
        hs.connect(server.url) as log,
        log.consumer("shop/orders", group="g", timeout_ms=0) as consumer,
    ):
        assert consumer.positions == {1: 5}
        assert reports == [*range(gone + 1)]
