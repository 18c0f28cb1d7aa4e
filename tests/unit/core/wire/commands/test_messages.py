"""Unit tests of headstream.core.wire.commands.messages."""

from __future__ import annotations

from headstream.core.model.polling import ConsumerKind, PollingKind
from headstream.core.wire.commands import messages, offsets


def test_a_poll_over_http_has_the_defaults_that_clients_know() -> None:
    poll = messages.PollMessages.from_json({"stream_id": "1", "topic_id": "eu"}, {"kind": "n", "other": "x"}, None)
    assert poll == messages.PollMessages(
        offsets.ConsumerRef(ConsumerKind.CONSUMER, 1), 1, "eu", 1, PollingKind.NEXT, 0, 10, False
    )
