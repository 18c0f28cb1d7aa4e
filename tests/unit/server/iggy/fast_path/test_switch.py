"""HEADSTREAM_FAST_PATH=0: the general path answers everything, and what it answers is the same."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from headstream.core.codec.binary import encode_sent
from headstream.core.model.message import Message
from headstream.core.model.partitioning import Partitioning
from headstream.core.model.polling import ConsumerKind, PollingKind
from headstream.core.wire.codes import Code
from headstream.core.wire.commands.messages import PollMessages, SendMessages
from headstream.core.wire.commands.offsets import ConsumerRef
from headstream.core.wire.commands.streams import CreateStream
from headstream.core.wire.commands.topics import NEVER, SERVER_DEFAULT, Compression, CreateTopic
from headstream.server.iggy.fast_path.small_requests import SmallRequests
from headstream.server.iggy.fast_path.switch import FAST_PATH_VARIABLE, has_fast_path
from tests.support.server.served import serving

_REPRESENTATIVE = (
    ["tests/unit/server/iggy/tcp/test_server.py", "-k", "transport and (order or split or together or wait or stops_reading)"],
    ["tests/behaviour/test_sending_behaviour.py", "tests/behaviour/test_consuming_behaviour.py", "-k", "tcp"],
)
"""What a client sees of sends, polls and waits, of requests that come together, and of answers that are not taken."""

_TIMEOUT_S = 300


@pytest.mark.parametrize(
    ("value", "expected"), [(None, True), ("", True), ("1", True), ("true", True), ("0", False), ("false", False), (" 0 ", False)]
)
def test_has_fast_path_is_false_when_the_variable_says_so(
    monkeypatch: pytest.MonkeyPatch, value: str | None, expected: bool
) -> None:
    monkeypatch.delenv(FAST_PATH_VARIABLE, raising=False)
    if value is not None:
        monkeypatch.setenv(FAST_PATH_VARIABLE, value)
    assert has_fast_path() is expected


@pytest.mark.parametrize("value", ["0", "1"])
def test_server_asks_the_fast_path_nothing_when_it_is_off(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    asked: list[int] = []

    class Noted(SmallRequests):
        """Notes what it is asked."""

        def answer(self, view: memoryview, size: int) -> Any:
            asked.append(size)
            return super().answer(view, size)

    monkeypatch.setattr("headstream.server.iggy.tcp.connection.SmallRequests", Noted)
    monkeypatch.setattr("headstream.server.iggy.tcp.reader_switch._SHORT_REQUESTS", 2)
    monkeypatch.setenv(FAST_PATH_VARIABLE, value)
    sent = SendMessages("shop", "orders", Partitioning.partition(1), encode_sent([Message(payload=b"one")]))
    poll = PollMessages(ConsumerRef(ConsumerKind.CONSUMER, 1), "shop", "orders", 1, PollingKind.OFFSET, 0, 100, False)
    with serving() as running, running.peer() as peer:
        peer.ask(CreateStream(0, "shop"))
        peer.ask(CreateTopic("shop", 0, 1, Compression.NONE, NEVER, SERVER_DEFAULT, 0, "orders"))
        for count in range(1, 11):
            peer.ask(sent)
            assert peer.request(Code.PING) == (0, b"")
            polled = peer.ask(poll)
            assert (polled.current_offset, polled.count) == (count - 1, count)
    assert bool(asked) is (value == "1")


@pytest.mark.nightly  # it starts two suites; the first tier has the test above
def test_server_passes_its_tests_when_the_fast_path_is_off() -> None:
    for chosen in _REPRESENTATIVE:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:randomly", *chosen],
            env=os.environ | {FAST_PATH_VARIABLE: "0"},
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
        )
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
