"""The plan of a conversion against the conversion itself: any message, from any dialect to any other."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headstream as hs
from headstream.core.codec.conversion import DIALECTS, convert, fit_message, plan_conversion, read_messages
from headstream.core.codec.conversion.findings import Policy
from headstream.errors import HeadstreamError, InvalidInputError
from headstream.replicate.codec.envelope import Envelope, encode_envelope
from tests.support.messages.headers import MESSAGES, PAIRS

EVERY_POLICY: tuple[Policy, ...] = ("widen", "text", "drop")
READABLE = [name for name, dialect in DIALECTS.items() if dialect.read is not None]

_TEXTS = st.none() | st.text(max_size=8)
_ENVELOPES = st.builds(
    lambda kind, data, headers, schema_id, schema, form: encode_envelope(
        Envelope(kind, data if form == "avro" else {"data": {"ID": len(data)}, "headers": {}}, headers, schema_id, schema, form)
    ),
    st.sampled_from(["MD", "DT"]),
    st.binary(max_size=20),
    st.none() | st.dictionaries(st.text(min_size=1, max_size=5), st.text(max_size=5), max_size=3),
    _TEXTS.filter(lambda text: text is None or text.isprintable()),
    _TEXTS,
    st.sampled_from(["avro", "json"]),
)
_DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(), max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["magic", "type", "headers", "message", "data", "beforeData", "operation", "\ud800"]),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
).map(lambda document: json.dumps(document).encode())
_PAYLOADS = st.none() | st.binary(max_size=30) | st.sampled_from([b"", b"atMSG", b"{}"]) | _ENVELOPES | _DOCUMENTS
_NUMBERS = st.none() | st.integers(0, 1 << 70) | st.integers(-(1 << 64), -1) | st.sampled_from([(1 << 63) - 1, 1 << 63, 1 << 64])

ANY_MESSAGE: st.SearchStrategy[hs.Message] = MESSAGES | st.builds(
    hs.Message,
    payload=_PAYLOADS,
    headers=PAIRS.map(hs.Headers) | st.just(hs.Headers()),
    key=st.none() | st.binary(max_size=10) | st.just(b"k" * 256),
    id=st.just(0) | st.integers(0, (1 << 128) - 1),
    offset=_NUMBERS,
    timestamp=_NUMBERS,
    state=st.sampled_from([1, 1, 10, 77]),
    checksum=st.sampled_from([-1, -1, 5, (1 << 32) - 1, 1 << 32]),
)
"""Messages that nothing has checked: numbers beyond every field, payloads that are almost an envelope."""


def check_plan(message: hs.Message, to: str) -> None:
    losses = [finding for finding in plan_conversion(message, to=to) if finding.is_loss]
    if losses:
        with pytest.raises(InvalidInputError):  # LimitError and HeaderError are such errors
            convert(message, to=to)
    else:
        convert(message, to=to)
    try:
        convert(message, to=to, on_loss=EVERY_POLICY)
    except HeadstreamError:
        assert any(not finding.remedies for finding in losses)
    else:
        assert all(finding.remedies for finding in losses)


@settings(max_examples=300)
@given(ANY_MESSAGE, st.sampled_from(list(DIALECTS)))
def test_plan_has_a_loss_exactly_when_convert_raises(message: hs.Message, to: str) -> None:
    check_plan(message, to)


@settings(max_examples=300)
@given(ANY_MESSAGE, st.sampled_from(READABLE), st.sampled_from(list(DIALECTS)))
def test_plan_has_a_loss_exactly_when_convert_raises_of_a_message_read_from_another_dialect(
    message: hs.Message, source: str, to: str
) -> None:
    try:
        written = convert(message, to=source, on_loss=EVERY_POLICY)
    except InvalidInputError:
        return
    (received,) = read_messages(written, dialect=source)
    check_plan(received, to)


@pytest.mark.parametrize(
    ("message", "to", "part", "reason"),
    [
        (hs.Message(payload=b"x"), "binary-first", "message", "the message has no offset or no timestamp, so it was not polled"),
        (hs.Message(payload=b"x"), "replicate", "payload", "the payload is not a Replicate envelope: "),
        (hs.Message(payload=None), "replicate", "payload", "a null payload is not a Replicate envelope"),
        (hs.Message(payload=b"x", offset=1 << 64, timestamp=0), "binary-wide", "message", "offset 18446744073709551616,"),
    ],
)
def test_plan_names_the_reason_when_a_message_is_impossible_in_a_dialect(
    message: hs.Message, to: str, part: str, reason: str
) -> None:
    (finding,) = plan_conversion(message, to=to)
    assert (finding.part, finding.is_loss, dict(finding.remedies)) == (part, True, {})
    assert finding.reason.startswith(reason)
    with pytest.raises(InvalidInputError, match=f"^{reason[:20]}"):
        convert(message, to=to, on_loss=EVERY_POLICY)


def test_plan_is_empty_when_only_the_payload_was_wrong() -> None:
    envelope: Any = Envelope("DT", b"data")
    message = hs.Message(payload=encode_envelope(envelope))
    assert plan_conversion(message, to="replicate") == ()
    assert plan_conversion(replace(message, payload=b"x"), to="replicate") != ()
    assert fit_message(message, to="replicate") == message
