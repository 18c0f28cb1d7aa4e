"""The JSON transport of Iggy."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given, settings

import headstream as hs
from headstream.core.codec import binary
from headstream.core.codec import json as json_transport
from headstream.errors import DecodeError, HeaderError, InvalidInputError
from tests.support.messages.broken import breakages, refusal
from tests.support.messages.headers import MESSAGES

# Documents of the original's documentation and of its server's replies.
SENT = b"""{"partitioning":{"kind":"messages_key","value":"a2V5LTE="},
 "messages":[{"id":0,"payload":"aGVsbG8=", "headers":{"trace":{"kind":"string","value":"YWJj"}}}]}"""
POLLED = b"""{"partition_id":1,"current_offset":1,"messages":[
 {"offset":0,"state":"available","timestamp":1700000000000000,"id":162,
  "checksum":907060870,"headers":{"trace":{"kind":"string","value":"YWJj"}},"payload":"aGVsbG8="}]}"""


def message_in(**members: Any) -> bytes:
    document = {
        "offset": 0, "state": "available", "timestamp": 1, "id": 5, "checksum": 0, "headers": None, "payload": "", **members,
    }  # fmt: skip
    return json.dumps({"partition_id": 1, "current_offset": 1, "messages": [document]}).encode()


def test_a_sent_document_of_the_original_is_read() -> None:
    sent = json_transport.decode_sent(SENT)
    assert sent.partitioning == hs.Partitioning.key(b"key-1")
    assert sent.messages == [hs.Message(payload=b"hello", headers=hs.Headers({"trace": "abc"}))]
    assert json.loads(json_transport.encode_sent(sent.messages, sent.partitioning)) == json.loads(SENT)


def test_a_polled_document_of_the_original_is_read() -> None:
    polled = json_transport.decode_polled(POLLED, topic="shop/orders")
    (message,) = polled.messages
    assert message.verify()
    assert (message.topic, message.partition, message.id, message.offset) == ("shop/orders", 1, 162, 0)
    assert json.loads(json_transport.encode_polled(polled.messages, 1, 1)) == json.loads(POLLED)


def test_absent_null_and_empty_headers_are_the_same() -> None:
    payload = {"payload": "aGVsbG8="}
    documents = [payload, {**payload, "headers": None}, {**payload, "headers": {}}]
    sent = {"partitioning": {"kind": "balanced", "value": ""}, "messages": documents}
    one, two, three = json_transport.decode_sent(json.dumps(sent).encode()).messages
    assert one == two == three == hs.Message(payload=b"hello")
    assert json.loads(json_transport.encode_sent([one]))["messages"][0]["headers"] is None


@pytest.mark.parametrize(
    ("partitioning", "kind", "value"),
    [
        (None, "balanced", ""),
        (hs.Partitioning.partition(1), "partition_id", "AQAAAA=="),
        (hs.Partitioning.key(b"key-1"), "messages_key", "a2V5LTE="),
    ],
)
def test_partitioning_is_spelled_as_the_original_does(partitioning: hs.Partitioning | None, kind: str, value: str) -> None:
    data = json_transport.encode_sent([], partitioning)
    assert json.loads(data)["partitioning"] == {"kind": kind, "value": value}
    assert json_transport.decode_sent(data).partitioning == (partitioning or hs.Partitioning.balanced())


def test_every_state_goes_by_its_name_and_an_id_has_128_bits() -> None:
    for state, name in [
        (1, "available"),
        (10, "unavailable"),
        (20, "poisoned"),
        (30, "marked_for_deletion"),
        (77, "unknown(77)"),
    ]:
        message = hs.Message(payload=b"x", id=(1 << 128) - 1, offset=3, timestamp=4, state=hs.MessageState(state))
        data = json_transport.encode_polled([message], 2, 9)
        assert json.loads(data)["messages"][0]["state"] == name
        assert b"340282366920938463463374607431768211455" in data
        assert json_transport.decode_polled(data).messages == [message]


@pytest.mark.parametrize(
    "numbers", [{"offset": 1 << 64}, {"offset": -1}, {"timestamp": 1 << 64}, {"timestamp": -1}, {"checksum": 1 << 32}]
)
def test_encode_polled_refuses_numbers_that_no_reader_takes(numbers: dict[str, int]) -> None:
    fields: dict[str, Any] = {"payload": b"x", "offset": 1, "timestamp": 2, **numbers}
    with pytest.raises(InvalidInputError, match=r"offset .*, timestamp .* or checksum .* is out of range"):
        json_transport.encode_polled([hs.Message(**fields)], 1, 1)


def test_a_repeated_key_is_refused_both_ways() -> None:
    repeated = hs.Message(payload=b"x", headers=hs.Headers([("k", 1), ("k", 2)]))
    with pytest.raises(HeaderError, match="'k' occurs more than once, which a JSON object cannot represent"):
        json_transport.encode_sent([repeated])
    value = '{"kind": "bool", "value": "AQ=="}'
    document = (
        f'{{"partitioning": {{"kind": "balanced"}}, "messages": [{{"payload": "", "headers": {{"k": {value}, "k": {value}}}}}]}}'
    )
    with pytest.raises(DecodeError, match="'k' is repeated in an object"):
        json_transport.decode_sent(document.encode())


def test_reserved_headers_count_wherever_they_stand() -> None:
    key = {"kind": "raw", "value": base64.b64encode(b"42").decode()}
    null = {"kind": "bool", "value": "AQ=="}
    a = {"kind": "uint8", "value": "AQ=="}
    data = message_in(headers={"a": a, "hs.null": null, "hs.key": key})
    (message,) = json_transport.decode_polled(data).messages
    assert (message.key, message.payload, message.headers) == (b"42", None, hs.Headers({"a": hs.uint8(1)}))
    for name in ("hs.key", "hs.null"):
        with pytest.raises(HeaderError, match=f"{name!r} is reserved"):
            json_transport.encode_sent([hs.Message(payload=b"x", headers=hs.Headers([("a", 1), (name, "text")]))])


@settings(max_examples=150)
@given(MESSAGES)
def test_the_same_message_through_both_transports_is_the_same_message(message: hs.Message) -> None:
    (through_binary,) = binary.decode_polled(binary.encode_polled([message]))
    assert through_binary == message
    if message.headers.repeated:
        with pytest.raises(HeaderError, match="occurs more than once"):
            json_transport.encode_polled([message], 1, 1)
        return
    (through_json,) = json_transport.decode_polled(json_transport.encode_polled([message], 1, 1)).messages
    assert through_json == through_binary
    (sent,) = json_transport.decode_sent(json_transport.encode_sent([message])).messages
    assert (sent.key, sent.payload, sent.headers, sent.id) == (message.key, message.payload, message.headers, message.id)


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"offset": -1}, r"offset must be an unsigned 64-bit number, not -1 at byte 0 \(messages\[0\]\.offset\)"),
        ({"offset": True}, "offset must be an unsigned"),
        ({"id": 1 << 128}, "id must be an unsigned 128-bit number"),
        ({"checksum": 1 << 32}, "checksum must be an unsigned 32-bit"),
        ({"state": "lost"}, "'lost' is not a message state"),
        ({"state": 1}, "a state must be a name, not a number"),
        ({"payload": "?"}, r"not valid base64 at byte 0 \(messages\[0\]\.payload\)"),
        ({"payload": None}, "bytes must be a base64 string, not null"),
        ({"headers": []}, "headers must be an object or null, not a list"),
        ({"headers": {"k": 5}}, r"an object with kind and value.*messages\[0\]\.headers\['k'\]"),
        ({"headers": {"k": {"kind": "int", "value": ""}}}, "'int' is not a header kind"),
        ({"headers": {"k": {"kind": "int32", "value": "AQ=="}}}, "a header of kind int32 must have 4 bytes, not 1"),
        ({"headers": {"": {"kind": "raw", "value": "AQ=="}}}, "must have 1 to 255 bytes"),
        ({"headers": {"k": {"kind": "unknown(3)", "value": "AQ=="}}}, r"unknown\(3\) is the kind bool"),
        ({"headers": {"k": {"kind": "unknown(300)", "value": "AQ=="}}}, "a number from 1 to 255, not 300"),
    ],
)
def test_what_is_not_a_message_is_refused_with_its_place(members: dict[str, Any], text: str) -> None:
    with pytest.raises(DecodeError, match=text):
        json_transport.decode_polled(message_in(**members))


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{}", b'{"messages": 5}', b"\xff", b"[" * 100_000, b'{"partitioning": 3, "messages": []}']
)
def test_decode_refuses_json_that_is_not_a_document_of_messages(data: bytes) -> None:
    with pytest.raises(DecodeError):
        json_transport.decode_sent(data)
    with pytest.raises(DecodeError):
        json_transport.decode_polled(data)


def test_partitioning_refuses_unknown_kinds_and_values_of_a_wrong_length() -> None:
    for kind, value in [("balanced", "AQ=="), ("partition_id", "AQ=="), ("messages_key", ""), ("random", "")]:
        document = {"partitioning": {"kind": kind, "value": value}, "messages": []}
        with pytest.raises(DecodeError, match="partitioning"):
            json_transport.decode_sent(json.dumps(document).encode())
    with pytest.raises(InvalidInputError, match="unsigned 32-bit"):
        hs.Partitioning.partition(1 << 32)


@pytest.mark.parametrize("data", [SENT, POLLED], ids=["sent", "polled"])
def test_every_truncation_and_every_changed_byte_is_a_value_or_a_decode_error(data: bytes) -> None:
    decode: Any = json_transport.decode_sent if data is SENT else json_transport.decode_polled
    refused = sum(refusal(decode, one) is not None for one in breakages(data))
    assert refused >= len(data)
