"""Unit tests of headstream.client.consumer.ahead."""

from __future__ import annotations

import time

import headstream as hs
from headstream.core.wire.extensions.messages import FetchMessages
from tests.support.messages.batches import stored
from tests.support.server.scripted_server import HANG_UP, SILENCE, ScriptedServer
from tests.unit.client.transports.remote.test_caller import Script, fetched


def test_the_next_batch_is_asked_for_while_the_body_works() -> None:
    answers = [fetched(stored(b"%d" % n, offset=n), next_offset=n + 1, end_offset=3) for n in range(3)]
    with ScriptedServer(Script(FetchMessages, *answers)) as server, hs.connect(server.url) as log:
        with log.consumer("shop/orders", timeout_ms=0) as consumer:
            assert next(consumer).offset == 0
            consumer.seek(1, 0)  # what was asked for is given up
        values = [command.value for command in server.commands if isinstance(command, FetchMessages)]
        assert values == [0, 1]


def test_a_batch_asked_for_ahead_is_given_up_without_asking_again() -> None:
    first = fetched(stored(b"0", offset=0), next_offset=1)
    with ScriptedServer(Script(FetchMessages, first, HANG_UP)) as server, hs.connect(server.url) as log:
        with log.consumer("shop/orders", timeout_ms=0) as consumer:
            next(consumer)
        assert len([command for command in server.commands if isinstance(command, FetchMessages)]) == 2


def test_a_batch_asked_for_ahead_is_not_waited_for_when_nobody_wants_it() -> None:
    first = fetched(stored(b"0", offset=0), next_offset=1)
    with ScriptedServer(Script(FetchMessages, first, SILENCE)) as server, hs.connect(server.url + "?timeout_ms=60000") as log:
        with log.consumer("shop/orders", timeout_ms=0) as consumer:
            next(consumer)
            began_s = time.monotonic()
        assert time.monotonic() - began_s < 30  # of the minute that an answer may take
