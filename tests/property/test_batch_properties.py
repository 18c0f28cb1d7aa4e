"""Properties of batches: round trips, totality, and that every kernel does the same compiled and interpreted."""

from __future__ import annotations

import dataclasses
import random
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headstream.core.codec.batch.results import WantedHeader
from headstream.core.codec.batch.stored.scan import scan
from headstream.core.codec.batch.stored.stamp import stamp
from headstream.core.codec.batch.to_columns.columns import decode_columns
from headstream.core.codec.binary import decode_headers, decode_polled, decode_sent, encode_headers, encode_polled, encode_sent
from headstream.core.model.constructors import int128
from headstream.core.model.headers import Headers
from headstream.core.model.message import Message
from headstream.errors import DecodeError, HeaderError, LimitError
from tests.support import kernels
from tests.support.messages.strategies import all_headers

SEED = bytes(range(16))
NOW = 1_700_000_000_000_000


def spellable(message: Message) -> bool:
    """Whether no ordinary header stands where a reserved one would."""
    try:
        encode_sent([message])
    except HeaderError:
        return False
    return True


messages = st.lists(
    st.builds(
        Message,
        payload=st.none() | st.binary(max_size=40) | st.integers(0, 2000).map(lambda size: bytes(size)),
        headers=all_headers,
        key=st.none() | st.binary(max_size=20),
        id=st.integers(1, (1 << 128) - 1),
    ).filter(spellable),
    max_size=6,
)


@settings(max_examples=150, deadline=None)
@given(batch=messages, offset=st.integers(0, 1 << 40))
def test_sent_to_stored_to_messages_to_sent_comes_back(batch: list[Message], offset: int) -> None:
    sent = encode_sent(batch)
    assert decode_sent(sent) == batch
    stored = stamp(sent, offset, NOW, SEED, True)
    polled = decode_polled(stored.data)
    assert encode_polled(polled) == stored.data
    assert encode_sent(polled) == sent
    assert [(m.offset, m.timestamp, m.state) for m in polled] == [(offset + i, NOW, 1) for i in range(len(batch))]
    assert all(message.verify() for message in polled)
    found = scan(stored.data)
    assert (found.count, found.end, found.fault, found.crc32c) == (len(batch), len(stored.data), None, stored.crc32c)


@settings(max_examples=100, deadline=None)
@given(headers=all_headers)
def test_headers_come_back_from_their_block(headers: Headers) -> None:
    assert decode_headers(encode_headers(headers)) == headers


WANTED = [WantedHeader("a", "int32"), WantedHeader("b", "string"), WantedHeader("a", "decimal", 20), WantedHeader("b", "float64")]
Call = Callable[[Any], Any]
CALLS: list[tuple[str, str, Call]] = [
    ("stamp", "batch.stored.stamp", lambda m: lambda data: m.stamp(data, 5, NOW, SEED, True)),
    ("stamp-iggy", "batch.stored.stamp", lambda m: lambda data: m.stamp(data, 5, NOW, SEED, False)),
    ("check_sent", "batch.stored.stamp", lambda m: lambda data: m.check_sent(data, True)),
    ("check_sent-iggy", "batch.stored.stamp", lambda m: lambda data: m.check_sent(data, False)),
    ("find_fault", "batch.stored.stamp", lambda m: lambda data: str(m.find_fault(data, False))),
    ("scan", "batch.stored.scan", lambda m: m.scan),
    ("masked_crc32c", "batch.stored.scan", lambda m: m.masked_crc32c),
    ("find_offset", "batch.stored.scan", lambda m: lambda data: [m.find_offset(data, n) for n in (0, 6, 1 << 50)]),
    ("find_timestamp", "batch.stored.scan", lambda m: lambda data: [m.find_timestamp(data, n) for n in (0, NOW, 1 << 60)]),
    ("find_states", "batch.stored.scan", lambda m: m.find_states),
    ("take", "batch.stored.scan", lambda m: lambda data: [m.take(data, 0, n, size) for n in (0, 1, 9) for size in (0, 99, 9999)]),
    ("crc", "batch.stored.scan", lambda m: lambda data: (m.crc32(data), m.crc32c(data))),
    ("columns", "batch.to_columns.columns", lambda m: m.decode_columns),
    ("columns-verify", "batch.to_columns.columns", lambda m: lambda data: m.decode_columns(data, verify=True, headers="binary")),
    ("columns-none", "batch.to_columns.columns", lambda m: lambda data: m.decode_columns(data, ids=False, headers="none")),
    ("lists-array", "batch.to_columns.header_lists", lambda m: lambda data: m.decode_header_lists(data, "array")),
    ("lists-map", "batch.to_columns.header_lists", lambda m: lambda data: m.decode_header_lists(data, "map")),
    ("header columns", "batch.to_columns.header_columns", lambda m: lambda data: m.decode_header_columns(data, WANTED)),
    (
        "header columns-fail",
        "batch.to_columns.header_columns",
        lambda m: lambda data: m.decode_header_columns(data, WANTED, fail=True),
    ),
    ("pack", "batch.from_columns.pack", lambda m: lambda data: pack_again(m, data)),
]


def pack_again(module: Any, stored: bytes) -> Any:
    read = decode_columns(stored, headers="binary")
    return module.pack(
        read.payload_offsets,
        read.payload_data,
        key_offsets=read.key_offsets,
        key_data=read.key_data,
        key_validity=read.key_validity,
        payload_validity=read.payload_validity,
        headers_offsets=read.headers_offsets,
        headers_data=read.headers_data,
    )


def outcome(call: Call, data: bytes) -> Any:
    """Return what a call gives, or the error it raises; any other exception fails the test."""
    try:
        result = call(data)
    except (DecodeError, LimitError, HeaderError) as error:
        return type(error), str(error)
    if dataclasses.is_dataclass(result) and not isinstance(result, type):
        values = {field.name: getattr(result, field.name) for field in dataclasses.fields(result)}
        return {**values, "fault": str(values.get("fault"))}
    return result


def check_same(data: bytes) -> None:
    for name, module, of in CALLS:
        outcomes = [outcome(of(variant), data) for variant in kernels.variants(module)]
        assert all(one == outcomes[0] for one in outcomes[1:]), name


@settings(max_examples=60, deadline=None)
@given(batch=messages)
def test_compiled_and_interpreted_do_the_same_with_good_batches(batch: list[Message]) -> None:
    sent = encode_sent(batch)
    check_same(sent)
    check_same(bytes(stamp(sent, 5, NOW, SEED, True).data))


@settings(max_examples=80, deadline=None)
@given(batch=messages, changes=st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(1, 255)), min_size=1, max_size=4))
def test_compiled_and_interpreted_do_the_same_with_damaged_batches(batch: list[Message], changes: list[tuple[int, int]]) -> None:
    for data in (bytearray(encode_sent(batch)), stamp(encode_sent(batch), 5, NOW, SEED, True).data):
        for at, change in changes:
            if data:
                data[at % len(data)] ^= change
        check_same(bytes(data))


@settings(max_examples=80, deadline=None)
@given(data=st.binary(max_size=300))
def test_compiled_and_interpreted_do_the_same_with_any_bytes(data: bytes) -> None:
    check_same(data)


DECODERS: list[tuple[str, Call]] = [
    *((name, of(variant)) for name, module, of in CALLS for variant in kernels.variants(module)[:1]),
    ("decode_sent", decode_sent),
    ("decode_polled", decode_polled),
    ("decode_polled-first", lambda data: decode_polled(data, dialect="binary-first")),
    ("decode_headers", decode_headers),
]

SAMPLE = [
    Message(payload=b"first payload", key=b"42", headers=Headers({"text": "żółw", "n": 5, "ok": True, "raw": b"\xff"})),
    Message(payload=None, key=b"k", headers=Headers([("a", 1.5), ("a", None)])),
    Message(payload=b"x" * 70, headers=Headers({"big": int128(1 << 100)})),
]


@pytest.mark.parametrize(("name", "call"), DECODERS, ids=[name for name, _ in DECODERS])
def test_every_truncation_and_every_flipped_byte_gives_a_value_or_an_error_of_ours(name: str, call: Call) -> None:
    sent = encode_sent(SAMPLE)
    stored = bytes(stamp(sent, 5, NOW, SEED, True).data)
    first = encode_polled(decode_polled(stored), dialect="binary-first")
    for whole in (sent, stored, first, encode_headers(SAMPLE[0].headers)):
        for size in range(len(whole)):
            outcome(call, whole[:size])
        for at in range(len(whole)):
            for change in (1, 0x80, 0xFF):
                outcome(call, whole[:at] + bytes([whole[at] ^ change]) + whole[at + 1 :])


@pytest.mark.parametrize(("name", "call"), DECODERS, ids=[name for name, _ in DECODERS])
def test_no_length_that_lies_makes_anything_allocate_for_it(name: str, call: Call) -> None:
    stored = bytes(stamp(encode_sent(SAMPLE), 5, NOW, SEED, True).data)
    huge = b"\xff\xff\xff\x7f"
    outcome(call, stored)  # whatever is made once
    tracemalloc.start()
    for whole in (stored, encode_sent(SAMPLE)):
        for at in range(len(whole) - 4):
            outcome(call, whole[:at] + huge + whole[at + 4 :])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4_000_000


def test_columns_agree_with_the_messages_of_many_batches() -> None:
    random_ = random.Random(7)
    for _ in range(20):
        batch = [
            Message(
                payload=random_.randbytes(random_.randrange(1, 400)),
                headers=Headers({f"h{j}": j for j in range(random_.randrange(4))}),
            )
            for _ in range(random_.randrange(1, 50))
        ]
        stored = stamp(encode_sent(batch), 0, NOW, SEED, False).data
        columns = decode_columns(stored, verify=True)
        assert columns.count == len(batch)
        assert columns.payload_data == b"".join(message.payload or b"" for message in batch)
