from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headstream.cli.lines import decode_line, encode_document, encode_line
from headstream.errors import DecodeError, HeadstreamError, InvalidInputError
from headstream.model.constructors import uint8
from headstream.model.headers import Headers
from headstream.model.identifiers import format_message_id
from headstream.model.message import Message
from tests.support.cli_inputs import ALL_KINDS, messages


@settings(max_examples=200)
@given(messages())
def test_line_keeps_everything_of_a_message(message: Message) -> None:
    line = encode_line(message)
    decoded = decode_line(line.encode())
    assert decoded == message
    assert (decoded.topic, decoded.partition) == (message.topic, message.partition)
    assert "\n" not in line


def test_line_has_the_form_that_is_promised() -> None:
    message = Message(
        payload=b"hello",
        headers=Headers({"attempt": uint8(3)}),
        key=b"42",
        id=7,
        offset=5,
        timestamp=9,
        topic="shop/orders",
        partition=1,
    )
    assert encode_document(message) == {
        "topic": "shop/orders",
        "partition": 1,
        "key": "NDI=",
        "payload": "aGVsbG8=",
        "id": "07000000-0000-0000-0000-000000000000",
        "headers": [{"key": "attempt", "kind": "uint8", "value": 3}],
        "timestamp_us": 9,
        "offset": 5,
        "state": "available",
        "checksum": message.checksum,
    }


def test_line_is_json_of_the_standard_for_every_kind() -> None:
    def refuse(text: str) -> None:
        raise AssertionError(text)

    line = encode_line(Message(payload=b"", headers=ALL_KINDS))
    assert json.loads(line, parse_constant=refuse)["headers"][1]["value"].startswith("grün")
    assert decode_line(line.encode()).headers == ALL_KINDS


def test_decode_line_gives_missing_members_their_defaults() -> None:
    decoded = decode_line(b'{"topic": "shop/orders"}\n')
    assert decoded == Message(payload=None)
    assert decoded.partition is None
    assert decode_line(b"{}").topic is None


def test_decode_line_takes_an_id_as_it_is_shown() -> None:
    assert decode_line(f'{{"id": "{format_message_id(12345)}"}}'.encode()).id == 12345


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ('{"Payload": "AA=="}', "Payload"),
        ('{"payload": "not base64!"}', "payload"),
        ('{"payload": 5}', "payload"),
        ('{"key": ["a"]}', "key"),
        ('{"partition": -1}', "partition"),
        ('{"partition": true}', "partition"),
        ('{"partition": 1.0}', "partition"),
        ('{"timestamp_us": 18446744073709551616}', "timestamp_us"),
        ('{"id": 340282366920938463463374607431768211456}', "id"),
        ('{"id": "x"}', "id"),
        ('{"id": -1}', "id"),
        ('{"topic": "orders"}', "topic"),
        ('{"topic": 1}', "topic"),
        ('{"state": "fine"}', "state"),
        ('{"state": 1}', "state"),
        ('{"headers": null}', "headers"),
        ('{"headers": {"a": 1}}', "headers"),
        ('{"headers": [{"key": "a", "value": 1}]}', "header 1"),
        ('{"headers": [{"key": "a", "kind": "int8", "value": 1, "x": 1}]}', "header 1"),
        ('{"headers": [{"key": "a", "kind": "int8", "value": 200}]}', "'a'"),
        ('{"headers": [{"key": "a", "kind": 4, "value": 200}]}', "'a'"),
        ('{"headers": [{"key": 1, "kind": "int8", "value": 1}]}', "header key"),
        ('{"headers": [{"key": "", "kind": "int8", "value": 1}]}', "header key"),
        ("[]", "object"),
        ("5", "object"),
    ],
)
def test_decode_line_names_the_member_that_is_wrong(line: str, named: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        decode_line(line.encode())
    assert named in str(caught.value)


@pytest.mark.parametrize(
    "line", ["", "{", '{"id": 1, "id": 2}', '{"id": NaN}', '{"id": 1e999}', '{"topic": "a/\\ud800"}', "[" * 100_000]
)
def test_decode_line_says_where_json_ends(line: str) -> None:
    with pytest.raises(DecodeError):
        decode_line(line.encode())


@settings(max_examples=100)
@given(messages(), st.data())
def test_decode_line_raises_nothing_else_whatever_is_changed(message: Message, data: st.DataObject) -> None:
    line = bytearray(encode_line(replace(message, headers=message.headers or Headers({"a": 1}))).encode())
    at = data.draw(st.integers(0, len(line) - 1))
    line[at] = data.draw(st.integers(0, 255))
    try:
        decoded = decode_line(bytes(line))
    except HeadstreamError:
        return
    assert isinstance(decoded, Message)


@pytest.mark.parametrize("number", ["123456789012345678.91", "1E+400", "-0", "1.50"])
def test_line_embeds_a_json_payload_with_every_digit_of_its_numbers(number: str) -> None:
    line = encode_line(Message(payload=f'{{"n":[{number}]}}'.encode()), "json")
    assert f'"payload": {{"n": [{number}]}}' in line


def test_line_embeds_a_payload_as_text_when_it_is_not_json_of_the_standard() -> None:
    document = encode_document(Message(payload=b'{"n": NaN}'), "json")
    assert document["payload"] == '{"n": NaN}'
