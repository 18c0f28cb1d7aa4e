"""What becomes of batches: counts, and the error that names their messages."""

from __future__ import annotations

import pytest

from headstream.client.producer.outcomes import OutcomeCounter, ProducerStats, explain
from headstream.client.producer.sending import Batch
from headstream.core.codec.binary import encode_sent
from headstream.core.model.identifiers import TopicName
from headstream.core.model.message import Message
from headstream.core.model.producers import Appended
from headstream.errors import HeadstreamError, OutcomeUnknownError

TOPIC = TopicName("shop", "orders")


def batch(*payloads: bytes, appended: Appended | None = None, error: Exception | None = None, in_doubt: bool = False) -> Batch:
    data = bytearray(encode_sent([Message(payload=payload) for payload in payloads]))
    made = Batch(1, 1, 0, 0, None, data, len(payloads))  # type: ignore[arg-type]
    made.appended, made.error, made.is_in_doubt = appended, error, in_doubt
    return made


def test_counts_tell_stored_failed_and_doubtful_messages_apart() -> None:
    counts = OutcomeCounter()
    for each in (
        batch(b"1", b"2", appended=Appended(0, None, 2)),
        batch(b"3", appended=Appended(2, None, 1, is_repeat=True)),
        batch(*[b"4"] * 5, error=HeadstreamError("refused")),
        batch(*[b"5"] * 7, error=OutcomeUnknownError("no answer"), in_doubt=True),
    ):
        counts.add(each)
    assert counts.describe(11, 900, 42) == ProducerStats(
        sent_count=26,
        stored_count=3,
        failed_count=5,
        in_doubt_count=7,
        pending_count=11,
        pending_bytes=900,
        batches_count=2,
        repeated_count=1,
        producer_id=42,
    )


def test_explain_returns_the_very_error_of_a_single_batch() -> None:
    error = HeadstreamError("refused")
    assert explain([batch(b"1", error=error)], TOPIC) is error


def test_explain_names_the_messages_of_all_batches_and_leaves_the_first_error_as_it_was() -> None:
    error = OutcomeUnknownError("no answer")
    error.add_note("of the first batch")
    failed = [batch(b"1", b"2", error=error, in_doubt=True), batch(b"3", error=HeadstreamError("refused"))]
    told = explain(failed, TOPIC)
    assert isinstance(told, OutcomeUnknownError)
    assert told is not error
    assert error.__notes__ == ["of the first batch"]
    assert [message.payload for message in told.messages] == [b"1", b"2", b"3"]
    assert [message.payload for message in told.in_doubt] == [b"1", b"2"]
    assert len(told.__notes__) == 1
    assert "2 messages sent to shop/orders may or may not be stored, 1 messages" in told.__notes__[0]


@pytest.mark.parametrize(
    ("in_doubt", "present", "absent"),
    [(True, "may or may not be stored", "were not stored"), (False, "were not stored", "may have been")],
)
def test_explain_says_of_messages_only_what_holds_for_some(in_doubt: bool, present: str, absent: str) -> None:
    given = HeadstreamError("closed")
    told = explain([batch(b"1", error=HeadstreamError("other"), in_doubt=in_doubt)], TOPIC, given)
    assert told is given
    assert present in told.__notes__[0]
    assert absent not in told.__notes__[0]
