"""Unit tests of headstream.cli.inspecting.recognition."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import headstream as hs
from headstream.cli.inspecting.recognition import recognize
from headstream.core.codec.kip82 import STRICT
from tests.support.messages.kip82 import header as typed_header
from tests.support.messages.kip82 import message as typed_message
from tests.unit.cli.inspecting.test_command import values


@pytest.mark.parametrize("record", [
    record for record in json.loads((Path(__file__).parents[3] / "vectors/iggy-vectors.json").read_text())
    if record["decoded"].get("messages")
], ids=lambda record: f"{record['client'][:20]}-{record['name']}")  # fmt: skip
def test_frames_of_real_clients_are_recognised_with_their_generation(record: dict[str, Any]) -> None:
    found = recognize(bytes.fromhex(record["hex"]))
    assert found.fault is None
    assert found.dialect == ("iggy-request" if record["direction"] == "client_to_server" else "iggy-response")
    assert found.reader.count == len(record["decoded"]["messages"])
    if record["dialect"] == "v5-56-byte-header":
        assert found.reader.notes == ["the frame contains messages of a newer Iggy version, with a header of 56 bytes"]
    for number, message in enumerate(record["decoded"]["messages"]):
        if "offset" in message and found.dialect == "iggy-response":
            assert values(found)[f"message {number} offset"] == str(message["offset"])


def test_what_the_proposal_contradicts_is_read_and_noted() -> None:
    found = recognize(typed_message(b"v", typed_header("k", 0, b"")))
    assert found.fault is None
    assert "the headers are invalid by the strict rules: the bool value (0x00) at byte" in found.reader.notes[0]


def test_bytes_of_nothing_known_say_what_comes_nearest() -> None:
    for data in (b"", bytes(range(200)), b"plain text, and nothing else" * 3):
        found = recognize(data)
        assert (found.dialect, str(found.fault)) == ("unknown", "the bytes match no known format at byte 0")
    assert "which does not match" in recognize(bytes(range(200))).reader.notes[0]


def test_a_block_is_told_from_kips_by_what_fits() -> None:
    assert recognize(hs.Headers({"a": 1}).as_bytes(STRICT)).dialect == "kip82-headers"
    assert recognize(hs.Headers({"a": 1}).as_bytes()).dialect == "headers"
