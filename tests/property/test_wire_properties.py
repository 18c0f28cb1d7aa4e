"""The protocol's frames, whatever the pieces are in which they come."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headstream.core.wire.command_classes import COMMANDS, decode_command
from headstream.core.wire.fields import fields_of
from headstream.core.wire.frames import FrameBuffer, encode_request, encode_response
from headstream.core.wire.records import Command
from headstream.errors import DecodeError, HeadstreamError

NUMBERS = st.integers(1, (1 << 32) - 1)
FRAMES = st.lists(st.tuples(NUMBERS, st.binary(max_size=300)), max_size=8)


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[begin:end] for begin, end in itertools.pairwise(places)]


def receive(frames: FrameBuffer, piece: bytes) -> list[tuple[int, bytes]]:
    got = []
    while piece:
        room = frames.writable()
        count = min(len(room), len(piece))
        room[:count], piece = piece[:count], piece[count:]
        got += [(frame.number, bytes(frame.payload)) for frame in frames.received(count)]
        frames.done()
    return got


@settings(max_examples=150)
@given(FRAMES, st.lists(st.integers(0, 5000), max_size=10), st.booleans())
def test_any_split_of_the_input_feeds_the_same_frames(sent: list[tuple[int, bytes]], cuts: list[int], is_request: bool) -> None:
    encode = encode_request if is_request else encode_response
    data = b"".join(encode(number, payload) for number, payload in sent)
    frames = FrameBuffer(is_request=is_request)
    got = [frame for piece in split(data, cuts) for frame in receive(frames, piece)]
    assert got == sent
    assert frames.pending_bytes == 0


@settings(max_examples=150)
@given(st.lists(st.binary(max_size=200), max_size=6), st.booleans())
def test_garbage_gives_frames_or_a_fault_and_no_more_memory_than_came(pieces: list[bytes], is_request: bool) -> None:
    frames = FrameBuffer(is_request=is_request, most_bytes=1000)
    size = sum(len(receive(frames, piece)) for piece in pieces)
    assert size <= sum(map(len, pieces))
    assert len(frames.writable()) <= 1 << 17
    assert frames.fault is not None or frames.pending_bytes <= 1000


CODES = st.sampled_from(sorted(COMMANDS))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 1 << 130) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


def attempt(make: Callable[[], Any]) -> tuple[Any, DecodeError | None]:
    try:
        return make(), None
    except DecodeError as error:
        return None, error


def is_refused(command: Command[Any]) -> bool:
    """Return whether a command is refused by its own checks, or cannot be said in bytes (a text that is too long for them)."""
    try:
        command.validate()
        command.encode()
    except HeadstreamError:
        return True
    return False


@settings(max_examples=200)
@given(CODES, st.binary(max_size=120))
def test_any_payload_is_a_command_that_says_the_same_again_or_is_refused(code: int, payload: bytes) -> None:
    for decode in (COMMANDS[code].decode, COMMANDS[code].decode_reply):
        value, error = attempt(functools.partial(decode, payload))
        assert error is None or 0 <= error.at <= len(payload)
        if isinstance(value, Command):
            again = decode_command(code, value.encode())
            assert type(again) is type(value)
            assert again.encode() == value.encode()


@settings(max_examples=200)
@given(CODES, st.data())
def test_any_json_is_a_command_or_is_refused_with_its_place(code: int, data: st.DataObject) -> None:
    kind = COMMANDS[code]
    names = [field.json_name for field in fields_of(kind)]
    route = kind.entry().route
    if route is None:
        return
    texts = st.text(max_size=12) | st.sampled_from(["1", "eu", "true", "next", "group:a"])
    path = {name: data.draw(texts) for name in names if "{" + name + "}" in route.path}
    query = data.draw(st.fixed_dictionaries({}, optional=dict.fromkeys(names, texts))) if names else {}
    body = data.draw(JSON | st.fixed_dictionaries({}, optional=dict.fromkeys([*names, "messages", "partitioning"], JSON)))
    command, error = attempt(lambda: kind.from_json(path, query, body))
    if command is None:
        assert error is not None
        assert error.what
    elif not is_refused(command):
        assert type(decode_command(code, command.encode())) is kind


@settings(max_examples=200)
@given(CODES, JSON | st.dictionaries(st.sampled_from(["id", "name", "messages", "user_id", "permissions"]), JSON))
def test_any_json_is_a_reply_or_is_refused(code: int, document: object) -> None:
    _, error = attempt(lambda: COMMANDS[code].reply_from_json(document))
    assert error is None or error.what
