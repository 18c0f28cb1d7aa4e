"""Message, its state and its checksum."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

import pytest

import headstream as hs
from headstream.core.model.message import parse_state, state_name


def test_checksum_is_the_crc32_that_iggy_stores() -> None:
    assert hs.checksum(b"orders_data_2") == 2144931076
    assert hs.checksum(b"orders_data_3") == 148782482
    assert hs.checksum(b"") == 0


def test_a_message_has_defaults_for_all_but_its_payload() -> None:
    message = hs.Message(payload=b"orders_data_2")
    assert (message.id, message.offset, message.timestamp, message.key) == (0, None, None, None)
    assert (message.state, message.headers, message.checksum) == (hs.MessageState.AVAILABLE, hs.Headers(), 2144931076)
    assert message.verify()
    assert not hs.Message(payload=b"x", checksum=1).verify()


def test_a_null_payload_is_not_an_empty_one() -> None:
    assert hs.Message(payload=None) != hs.Message(payload=b"")
    assert hs.Message(payload=None).checksum == 0
    assert hs.Message(payload=None).verify()


def test_headers_are_made_of_what_is_given() -> None:
    message = hs.Message(payload=b"", headers={"attempt": hs.uint8(3)})  # type: ignore[arg-type]
    assert message.headers == hs.Headers([("attempt", hs.uint8(3))])


def test_a_message_is_frozen_and_survives_pickling() -> None:
    message = hs.Message(
        payload=b"x", key=b"k", headers=hs.Headers({"a": 1}), id=5, offset=1, timestamp=2, state=hs.MessageState.POISONED
    )
    with pytest.raises(dataclasses.FrozenInstanceError):
        message.offset = 7  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(message)) == message
    assert hash(message) == hash(pickle.loads(pickle.dumps(message)))


def test_where_a_message_was_read_is_no_part_of_equality() -> None:
    assert hs.Message(payload=b"x", topic="a/b", partition=1) == hs.Message(payload=b"x")


@pytest.mark.parametrize("name", ["payload", "key"])
@pytest.mark.parametrize("wrong", ["text", 5, bytearray(b"x"), []])
def test_payload_and_key_are_bytes(name: str, wrong: Any) -> None:
    with pytest.raises(hs.InvalidInputError, match=f"bytes or None.*{type(wrong).__name__}"):
        hs.Message(**{"payload": b"", name: wrong})


@pytest.mark.parametrize("wrong", [-1, 1 << 128])
def test_ids_are_unsigned_128_bit(wrong: int) -> None:
    with pytest.raises(hs.InvalidInputError, match="128-bit"):
        hs.Message(payload=b"", id=wrong)


@pytest.mark.parametrize("code", [1, 10, 20, 30])
def test_known_states_are_members(code: int) -> None:
    state = hs.Message(payload=b"", state=code).state  # type: ignore[arg-type]
    assert isinstance(state, hs.MessageState)
    assert parse_state(state_name(code)) == code
    assert parse_state(state_name(code).upper()) == code


@pytest.mark.parametrize("code", [0, 2, 99, 255])
def test_unknown_states_are_kept_and_shown(code: int) -> None:
    message = hs.Message(payload=b"", state=hs.MessageState(code))
    assert (message.state, message.state.name, state_name(code)) == (code, f"unknown({code})", f"unknown({code})")
    assert parse_state(f"unknown({code})") is message.state
    assert pickle.loads(pickle.dumps(message)) == message
    assert len(list(hs.MessageState)) == 4


def test_state_names_are_those_of_the_documentation() -> None:
    assert [state_name(state) for state in hs.MessageState] == ["available", "unavailable", "poisoned", "marked_for_deletion"]


@pytest.mark.parametrize("wrong", [-1, 256])
def test_message_refuses_a_state_that_does_not_fit_a_byte(wrong: int) -> None:
    with pytest.raises(hs.InvalidInputError, match=f"0 to 255, not {wrong}"):
        hs.Message(payload=b"", state=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["gone", "", "unknown(256)", "unknown(-1)", "unknown(x)", "unknown"])
def test_other_state_names_are_refused(name: str) -> None:
    with pytest.raises(hs.InvalidInputError, match=r"is not a message state\. Use one of available, unavailable"):
        parse_state(name)


def test_a_received_message_equals_a_made_one_and_pickles_as_received() -> None:
    made = hs.Message(payload=b"x", offset=1, timestamp=2)
    received = hs.ReceivedMessage(payload=b"x", offset=1, timestamp=2, topic="a/b", partition=1)
    assert made == received
    assert hash(made) == hash(received)
    assert made != hs.ReceivedMessage(payload=b"x", offset=2, timestamp=2)
    assert type(pickle.loads(pickle.dumps(received))) is hs.ReceivedMessage
    assert dataclasses.replace(received, payload=b"y").partition == 1


def test_headers_of_a_message_are_those_of_when_it_was_made() -> None:
    headers = hs.Headers().put_string("a", "b")
    message = hs.Message(payload=b"", headers=headers)
    headers.put("c", 1)
    assert message.headers == hs.Headers({"a": "b"})
    with pytest.raises(hs.HeaderError, match=r"read-only, because they belong to a message.*Headers\(message\.headers\)"):
        message.headers.put("d", 1)
    assert hs.Headers(message.headers).put("d", 1).keys() == ("a", "d")
