"""Frames that Iggy's current Python client has sent: each is the request that its header names."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from headstream.core.codec.binary import decode_sent
from headstream.core.wire.codes import Code
from headstream.core.wire.command_classes import COMMANDS
from headstream.core.wire.commands import messages, sessions, topics
from headstream.core.wire.vsr.encoding import VSR
from headstream.core.wire.vsr.frames import RequestHeader, scan_requests
from headstream.errors import HeadstreamError

RECORDS = json.loads((Path(__file__).parent / "iggy-today-vectors.json").read_text())


def decode(record: dict[str, Any]) -> Any:
    frame = memoryview(bytes.fromhex(record["hex"]))
    found = scan_requests(frame, 0, len(frame), 1 << 20)
    assert (found.end, found.is_too_long, len(found.frames)) == (len(frame), False, 1)
    header = RequestHeader.decode(frame)
    assert (header.operation, header.read_code if header.is_read else 0) == (record["operation"], record["code"])
    assert header.matches(frame[256:])
    command = VSR.decode(found.frames[0][0], frame)
    assert type(command) is COMMANDS[found.frames[0][0]]
    return command


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: f"{record['client'][:4]}-{record['operation']}-{record['code']}")
def test_decode_reads_a_recorded_request(record: dict[str, Any]) -> None:
    decode(record)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: f"{record['client'][:4]}-{record['operation']}-{record['code']}")
def test_decode_refuses_a_recorded_request_that_is_cut_or_changed_by_an_error_of_the_protocol(record: dict[str, Any]) -> None:
    whole, chance = bytes.fromhex(record["hex"]), random.Random(record["hex"])
    code = scan_requests(memoryview(whole), 0, len(whole), 1 << 20).frames[0][0]
    for end in range(256, len(whole) + 1):
        changed = bytearray(whole if end % 3 else whole[:end])
        for _ in range(end % 3):
            changed[chance.randrange(256, len(changed)) if len(changed) > 256 else 255] ^= chance.randrange(1, 256)
        for data in (whole[:end], changed, changed + chance.randbytes(end % 50)):
            with suppress(HeadstreamError):
                VSR.decode(code, memoryview(data)).validate()


def test_decode_reads_what_the_recorded_requests_say() -> None:
    found = {type(command): command for command in map(decode, RECORDS)}
    assert found[sessions.Login] == sessions.Login(found[sessions.Login].username, found[sessions.Login].password)
    assert found[topics.UpdateTopic].message_expiry is None
    assert found[topics.CreateTopic].partitions_count > 0
    assert found[messages.PollMessages].must_own
    sent = decode_sent(found[messages.SendMessages].messages)
    assert len(sent) > 1
    assert all(message.headers.items()[0][0] == "hs.timestamp" for message in sent)
    assert Code.SYNC_GROUP in {record["code"] for record in RECORDS}
