"""Requests that were never answered, or not in words: what is sent again, what is in doubt, and whom the server remembers."""

from __future__ import annotations

from typing import Any

import pytest

import headstream as hs
from headstream.core.wire.commands.streams import CreateStream
from headstream.core.wire.extensions.producers import AppendedBatch, AppendNumbered, InitProducer, NewProducer, ReleaseProducer
from headstream.core.wire.extensions.topic_options import GetOpenTopic, OpenPartition, OpenTopic
from headstream.core.wire.frames import encode_response
from headstream.core.wire.records import Command
from headstream.errors import OutcomeUnknownError
from tests.support.server.scripted_server import HANG_UP, SILENCE, ScriptedServer

TOPIC = OpenTopic(
    "shop", "orders", 1, 0, hs.Limits.IGGY, hs.Fsync.INTERVAL, None, None, None, None, "1/1", (OpenPartition(1, 0, 100, 0, 0, 1),)
)


class Answers:
    """Answers to numbered batches and to CreateStream, one after the other; the last one again and again."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)

    def __call__(self, command: Command[Any]) -> Any:
        if isinstance(command, GetOpenTopic):
            return TOPIC
        if isinstance(command, InitProducer):
            return NewProducer(7, 0)
        if not isinstance(command, (AppendNumbered, CreateStream)):
            return None
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


def numbers_of(server: ScriptedServer) -> list[tuple[int, int, int]]:
    return [(c.producer_id, c.epoch, c.sequence) for c in server.commands if isinstance(c, AppendNumbered)]


def test_a_closed_producer_is_forgotten_by_the_server_unless_an_attempt_was_never_answered() -> None:
    # What was not answered may arrive late: of a producer that was forgotten it would be appended again, or out of order.
    for answers, is_released in (((AppendedBatch(10, 5, 1, False),), True), ((HANG_UP, AppendedBatch(10, 5, 1, True)), False)):
        with ScriptedServer(Answers(*answers)) as server, hs.connect(server.url) as log:
            with log.producer("shop/orders") as producer:
                producer.send_and_wait(b"a")
            assert any(isinstance(command, ReleaseProducer) for command in server.commands) is is_released


def test_a_producer_that_gave_a_batch_up_in_doubt_stays_remembered_by_the_server() -> None:
    script = Answers(AppendedBatch(10, 5, 1, False), SILENCE)
    with ScriptedServer(script) as server, hs.connect(server.url) as log:
        with log.producer("shop/orders", delivery_timeout_ms=1500) as producer:
            producer.send_and_wait(b"a")
            with pytest.raises(OutcomeUnknownError):
                producer.send(b"b").result(60)
        assert not any(isinstance(command, ReleaseProducer) for command in server.commands)


def test_a_numbered_batch_is_sent_again_after_an_answer_that_cannot_be_read() -> None:
    script = Answers(encode_response(0, b""), AppendedBatch(10, 5, 1, True))
    with ScriptedServer(script) as server, hs.connect(server.url) as log:
        with log.producer("shop/orders") as producer:
            assert producer.send_and_wait(b"x").offset == 10
        assert numbers_of(server) == [(7, 0, 0), (7, 0, 0)]


def test_a_command_that_is_done_once_is_in_doubt_after_an_answer_that_cannot_be_read() -> None:
    script = Answers(encode_response(0, b""))
    with (
        ScriptedServer(script) as server,
        hs.connect(server.url) as log,
        pytest.raises(OutcomeUnknownError, match="invalid response"),
    ):
        log.create_stream("shop")
