"""Unit tests of headstream.spark.sink.sink."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headstream.core.wire.extensions.epochs import CommittedEpoch
from headstream.core.wire.extensions.topic_options import GetIdentity, Identity
from headstream.core.wire.records import Command
from headstream.errors import InvalidInputError, LogError
from headstream.spark.sink import server_sink
from headstream.spark.sink.server_sink import ServerSink
from headstream.testing.local_server import LocalServer
from tests.unit.spark.sink.test_server_sink import TOPIC, batch, manifest, payloads, server, sink

__all__ = ["server", "sink"]  # fixtures


def test_sink_fails_when_its_epoch_is_behind_a_later_one(
    server: LocalServer, sink: ServerSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = sink.begin_part("query", 1, "one")
    part.add(TOPIC, 1, batch(b"a"), 1)
    wanted = manifest(sink, part.finish())
    sink.commit(replace(wanted, epoch=7, parts=()), 10)
    with pytest.raises(InvalidInputError, match="epoch 1 of writer 'query' precedes the committed epoch 7"):
        sink.commit(wanted, 10)
    assert payloads(server) == []

    class EarlierServer:
        """Answers as servers did that passed over such an epoch in silence."""

        def call(self, command: Command[Any], **_: Any) -> Any:
            return Identity(wanted.identity) if isinstance(command, GetIdentity) else CommittedEpoch(7)

    monkeypatch.setattr(server_sink, "caller_of", lambda address: EarlierServer())
    with pytest.raises(LogError, match="epoch 1 was not committed: the server has committed epoch 7"):
        sink.commit(wanted, 10)
