"""Every frame that real clients exchanged, as commands and replies of the protocol."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headstream.core.wire.codes import Code
from headstream.core.wire.command_classes import COMMANDS, decode_command
from headstream.core.wire.commands import messages, sessions, topics
from headstream.core.wire.frames import Frame, FrameBuffer, encode_request, encode_response
from headstream.core.wire.records import Command
from headstream.core.wire.route_matching import find_route
from headstream.errors import DecodeError, HeadstreamError

RECORDS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "iggy-vectors.json").read_text())
PAIRS = list(zip(RECORDS[::2], RECORDS[1::2], strict=True))
LATER = "v5-56-byte-header"


def name_of(pair: tuple[dict[str, Any], dict[str, Any]]) -> str:
    return f"{pair[0]['client'].split()[1]}-{pair[0]['name']}"


def only_frame(frames: FrameBuffer, data: bytes) -> Frame:
    [frame] = frames.feed(data)
    return frame


def request_of(record: dict[str, Any]) -> Frame:
    return only_frame(FrameBuffer.for_requests(), bytes.fromhex(record["hex"]))


def response_of(record: dict[str, Any]) -> Frame:
    return only_frame(FrameBuffer.for_responses(), bytes.fromhex(record["hex"]))


def is_later_send(record: dict[str, Any]) -> bool:
    return record["dialect"] == LATER and request_of(record).number == Code.SEND_MESSAGES


SPOKEN = [pair for pair in PAIRS if not is_later_send(pair[0])]


def test_vectors_have_the_expected_number_of_requests_and_responses() -> None:
    assert len(RECORDS) == 148
    assert len(PAIRS) - len(SPOKEN) == 1
    for request, response in PAIRS:
        assert (request["direction"], response["direction"]) == ("client_to_server", "server_to_client")
        assert request["name"].removesuffix("request") == response["name"].removesuffix("response")


@pytest.mark.parametrize("pair", SPOKEN, ids=name_of)
def test_a_request_is_a_command_that_encodes_to_the_same_frame(pair: tuple[dict[str, Any], dict[str, Any]]) -> None:
    frame = request_of(pair[0])
    command = decode_command(frame.number, frame.payload)
    assert command.code == pair[0]["decoded"]["code"]
    assert encode_request(command.code, command.encode()).hex() == pair[0]["hex"]
    for name in ("name", "username", "password", "version", "partitions_count", "count"):
        if hasattr(command, name) and name in pair[0]["decoded"]:
            recorded = pair[0]["decoded"][name]
            assert getattr(command, name) == (None if recorded == "(field absent)" else recorded)


@pytest.mark.parametrize("pair", SPOKEN, ids=name_of)
def test_a_response_is_a_reply_that_encodes_to_the_same_frame(pair: tuple[dict[str, Any], dict[str, Any]]) -> None:
    kind = COMMANDS[request_of(pair[0]).number]
    response = response_of(pair[1])
    assert response.number == pair[1]["decoded"]["status"]
    if response.number:
        assert not response.payload
        return
    reply = kind.decode_reply(response.payload)
    assert encode_response(0, kind.encode_reply(reply)).hex() == pair[1]["hex"]
    for name in ("id", "name", "user_id", "count", "current_offset", "messages_count", "partitions_count"):
        if hasattr(reply, name) and name in pair[1]["decoded"]:
            assert getattr(reply, name) == pair[1]["decoded"][name]


@pytest.mark.parametrize("pair", [pair for pair in SPOKEN if pair[0]["dialect"] != LATER], ids=name_of)
def test_command_and_reply_are_the_same_over_http(pair: tuple[dict[str, Any], dict[str, Any]]) -> None:
    command = decode_command(request_of(pair[0]).number, request_of(pair[0]).payload)
    asked = command.to_json()
    found = find_route(asked.method, asked.path)
    assert found is not None
    assert found.entry.code == command.code
    document = json.loads(json.dumps(asked.body))
    again = COMMANDS[found.entry.code].from_json(found.path, asked.query, document)
    if isinstance(command, topics.CreateTopic):  # bytes have generations, JSON has one
        assert again.to_json() == asked
    else:
        assert again.encode() == command.encode()
    response = response_of(pair[1])
    if not response.number:
        kind: type[Command[Any]] = type(command)
        spelled = kind.reply_to_json(kind.decode_reply(response.payload))
        if spelled is not None:
            reply = kind.reply_from_json(json.loads(json.dumps(spelled)))
            assert kind.encode_reply(reply) == bytes(response.payload)


def test_the_generations_of_clients_are_told_apart() -> None:
    generations: dict[str, set[object]] = {}
    for request, _ in SPOKEN:
        command = decode_command(request_of(request).number, request_of(request).payload)
        found = generations.setdefault(request["client"].split()[1], set())
        if isinstance(command, topics.CreateTopic):
            found.add(command.generation)
        if isinstance(command, sessions.Login):
            found.add((command.version, command.is_of_later_generation))
    assert generations == {
        "0.2.0": {topics.Generation.BEFORE_0_5_0, (None, False)},
        "0.2.7": {topics.Generation.CURRENT, ("0.6.102", False)},
        "0.4.0": {topics.Generation.CURRENT, ("0.6.202", False)},
        "0.5.0": {topics.Generation.CURRENT, ("0.7.0", True)},
    }


def test_the_later_generation_is_refused_by_name() -> None:
    [send] = [request for request, _ in PAIRS if is_later_send(request)]
    with pytest.raises(DecodeError, match="newer Iggy client"):
        decode_command(Code.SEND_MESSAGES, request_of(send).payload)
    assert "newer Iggy client" in messages.LATER_GENERATION
    logins = [request_of(request) for request, _ in PAIRS if request["dialect"] == LATER]
    login = next(decode_command(frame.number, frame.payload) for frame in logins if frame.number == Code.LOGIN)
    with pytest.raises(HeadstreamError, match=r"SDK 0.7.0 of Iggy is not supported") as caught:
        login.validate()
    assert caught.value.status == 7


def decode_or_refuse(decode: Any, data: bytes) -> None:
    error = None
    try:
        decode(data)
    except DecodeError as refused:
        error = refused
    assert error is None or 0 <= error.at <= len(data)


@pytest.mark.parametrize("code", sorted({request_of(request).number for request, _ in PAIRS}))
def test_every_truncation_and_changed_byte_gives_a_value_or_a_decode_error(code: int) -> None:
    kind = COMMANDS[code]
    bodies = {bytes(request_of(request).payload) for request, _ in PAIRS if request_of(request).number == code}
    replies = {bytes(response_of(response).payload) for request, response in SPOKEN if request_of(request).number == code}
    for decode, datas in ((kind.decode, bodies), (kind.decode_reply, replies)):
        for data in datas:
            for end in range(len(data)):
                decode_or_refuse(decode, data[:end])
            for at in range(len(data)):
                for mask in (0x01, 0x80, 0xFF):
                    decode_or_refuse(decode, data[:at] + bytes([data[at] ^ mask]) + data[at + 1 :])
