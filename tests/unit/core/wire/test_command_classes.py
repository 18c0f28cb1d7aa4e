"""Unit tests of headstream.core.wire.command_classes."""

from __future__ import annotations

from typing import Any

import pytest

from headstream.core.wire import codes, command_classes, records, refusals
from headstream.errors import DecodeError
from tests.unit.core.wire.test_commands import EXAMPLES, id_of


def status_when_decoded(command: records.Command[Any], payload: bytes) -> int | None:
    try:
        assert command_classes.decode_command(command.code, payload) != command
    except DecodeError as error:
        return refusals.status_of(error)
    return None


def test_every_command_of_the_table_has_an_example() -> None:
    mine = {code for code in command_classes.COMMANDS if not codes.TABLE[code].is_extension}
    assert {command.code for command in EXAMPLES} == mine == {code for code in codes.TABLE if code < 10_000}


@pytest.mark.parametrize("command", EXAMPLES, ids=id_of)
def test_a_command_decodes_to_itself(command: records.Command[Any]) -> None:
    payload = command.encode()
    assert command_classes.decode_command(command.code, payload) == command
    assert command_classes.decode_command(command.code, memoryview(bytearray(payload))) == command
    command.validate()
    refused = [status for end in range(len(payload)) if (status := status_when_decoded(command, payload[:end]))]
    assert set(refused) <= {3, 82, 4028}


@pytest.mark.parametrize(
    ("code", "payload", "status"),
    [
        (999, b"", 3),
        (200, b"\x01\x03\0\0\0", 3),
        (200, b"\x02\x00", 3),
        (200, b"\x03\x04abcd", 3),
        (200, b"\x02\x02\xff\xfe", 3),
        (101, b"\x02\x01a\x02\x01b\x03\x00", 4028),
        (101, b"\x02\x01a\x02\x01b\x02\x03abc", 82),
        (101, b"\x02\x01a\x02\x01b\x04\x00", 3),
        (35, b"\x01\x04\1\0\0\0\x02", 3),
        (33, b"\x03abc\x03abc\x09\x00", 3),
    ],
)
def test_what_cannot_be_decoded_is_refused_with_its_status(code: int, payload: bytes, status: int) -> None:
    with pytest.raises(DecodeError) as caught:
        command_classes.decode_command(code, payload)
    assert refusals.status_of(caught.value) == status
