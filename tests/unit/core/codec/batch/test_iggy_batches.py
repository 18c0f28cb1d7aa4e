"""Batches of Iggy's protocol 0.11: sent ones become messages, stored messages become batches."""

from __future__ import annotations

import struct
from types import ModuleType

import pytest

from headstream.errors import DecodeError
from tests.support import kernels
from tests.support.messages.batches import header, sent, stored
from tests.support.server.vsr_peer import batch, frame

ATTEMPT = b"\x02" + header("attempt", 9, b"\x03")
ORIGIN = 1_700_000_000_000_000
VECTOR_FRAME = bytes.fromhex(
    "2e5e7f04c9383169 01000000000000000000000000000000 00000000 00000000 12000000 0b000000 0000000000000000"
    "74776f20746561706f7473 0207000000617474656d7074090100000003"
)
VECTOR_BATCH = (
    bytes(24) + bytes.fromhex("00401e18240a0600 4d01000000000000 bf8019eafaea4ea7 01000000") + bytes(204) + VECTOR_FRAME
)
VECTOR_POLLED = (
    bytes(16)
    + bytes.fromhex("20e12518240a0600 00401e18240a0600 4d01000000000000 7a6291d9fb42451e 01000000")
    + bytes(204)
    + VECTOR_FRAME
)
codec = kernels.fixture("batch.iggy_batches")


def timed(time_us: int) -> bytes:
    return header("hs.timestamp", 7, struct.pack("<q", time_us))


def test_decode_batch_returns_the_messages_of_the_vector(codec: ModuleType) -> None:
    found = codec.decode_batch(VECTOR_BATCH)
    assert bytes(found) == sent(b"two teapots", timed(ORIGIN) + ATTEMPT[1:], 1)
    assert batch([VECTOR_FRAME], origin=ORIGIN) == VECTOR_BATCH


def test_encode_batches_returns_the_bytes_of_the_vector(codec: ModuleType) -> None:
    time_us = int.from_bytes(VECTOR_POLLED[16:24], "little")
    message = stored(b"two teapots", timed(ORIGIN) + ATTEMPT[1:], timestamp_us=time_us)
    assert codec.encode_batches(message, 1, 0) == VECTOR_POLLED


def test_encode_batches_returns_what_was_sent_when_messages_have_headers_and_gaps(codec: ModuleType) -> None:
    key = header("hs.key", 1, b"k")
    payloads = [b"a" * size for size in (1, 8, 20, 200, 5000)]
    messages = [
        stored(payload, key + timed(ORIGIN + number) + ATTEMPT[1:] * number, offset=10 + 3 * number, timestamp_us=ORIGIN + 7)
        for number, payload in enumerate(payloads)
    ]
    frames = [
        frame(payload, b"\x02" + key + ATTEMPT * number, message_id=1, offset=3 * number, origin=number)
        for number, payload in enumerate(payloads)
    ]
    expected = batch(frames, partition=4, offset=10, time=ORIGIN + 7, origin=ORIGIN)
    assert codec.encode_batches(b"".join(messages), 5, 4) == expected
    assert isinstance(codec.decode_batch(expected), memoryview)


def test_encode_batches_divides_messages_whose_times_are_far_apart(codec: ModuleType) -> None:
    times = [(ORIGIN, ORIGIN), (ORIGIN + 999, ORIGIN), (ORIGIN + 1000, ORIGIN), (ORIGIN + 1000, ORIGIN + (1 << 32))]
    messages = [stored(b"x", timed(sent_us), offset=n, timestamp_us=at) for n, (at, sent_us) in enumerate(times)]
    expected = [
        batch([frame(b"x", message_id=1), frame(b"x", message_id=1, offset=1)], time=ORIGIN, origin=ORIGIN),
        batch([frame(b"x", message_id=1)], offset=2, time=ORIGIN + 1000, origin=ORIGIN),
        batch([frame(b"x", message_id=1)], offset=3, time=ORIGIN + 1000, origin=ORIGIN + (1 << 32)),
    ]
    assert codec.encode_batches(b"".join(messages), 4, 0) == b"".join(expected)


def test_encode_batches_shows_the_time_of_the_append_where_the_sender_has_given_none(codec: ModuleType) -> None:
    other = header("hs.timestamp", 7, struct.pack("<q", -1)) + header("hs.timestamp", 12, bytes(8))
    found = codec.encode_batches(stored(b"x", other, timestamp_us=ORIGIN), 1, 0)
    frames = [frame(b"x", b"\x02" + other[:29] + b"\x02" + other[29:], message_id=1)]
    assert found == batch(frames, time=ORIGIN, origin=ORIGIN)


@pytest.mark.parametrize(("origin", "delta"), [(ORIGIN, 7), (0, 7), (0, 0), ((1 << 63) - (1 << 32), (1 << 32) - 1)])
@pytest.mark.parametrize("key", [b"", header("hs.key", 1, b"k")], ids=["without a key", "with a key"])
def test_decode_batch_stores_the_senders_time_behind_the_key(codec: ModuleType, origin: int, delta: int, key: bytes) -> None:
    headers = b"\x02" * bool(key) + key + ATTEMPT
    found = codec.decode_batch(batch([frame(b"x", headers, message_id=1, origin=delta)], origin=origin))
    time = timed(origin + delta) if origin + delta else b""
    assert bytes(found) == sent(b"x", key + time + ATTEMPT[1:], 1)


def test_decode_batch_keeps_a_header_that_is_called_as_the_senders_time(codec: ModuleType) -> None:
    own = timed(5)
    found = codec.decode_batch(batch([frame(b"x", b"\x02" + own, message_id=1)], origin=ORIGIN))
    assert bytes(found) == sent(b"x", timed(ORIGIN) + own, 1)
    back = codec.encode_batches(stored(b"x", timed(ORIGIN) + own), 1, 0)
    assert back == batch([frame(b"x", b"\x02" + own, message_id=1)], origin=ORIGIN)


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (VECTOR_BATCH[:255], 1),
        (VECTOR_BATCH[:-1], 1),
        (batch([]), 1),
        (batch([frame(b"x")])[:48] + b"\x02" + batch([frame(b"x")])[49:], 1),
        (batch([frame(b"x", origin=1 << 31)], origin=(1 << 63) - (1 << 31)), 1),
        (VECTOR_BATCH[:60] + b"\x01" + VECTOR_BATCH[61:], 2),
        (VECTOR_BATCH[:40] + b"\x00" + VECTOR_BATCH[41:], 3),
        (VECTOR_BATCH[:-20] + b"\x00" + VECTOR_BATCH[-19:], 4),
        (batch([frame(b"x", b"\x04" + header("k", 9, b"\x03"))]), 5),
        (batch([frame(b"x", (b"\x02" + header("k", 9, b"\x03"))[:-1])]), 6),
        (batch([frame(b"x", b"\x02\x00\x00")]), 6),
        (batch([frame(b"")]), 7),
    ],
)
def test_decode_batch_names_the_fault_when_bytes_are_wrong(codec: ModuleType, data: bytes, fault: int) -> None:
    assert codec.decode_batch(data) == fault


def test_decode_batch_survives_every_truncation_and_every_flipped_byte(codec: ModuleType) -> None:
    for end in range(len(VECTOR_BATCH)):
        assert isinstance(codec.decode_batch(VECTOR_BATCH[:end]), int)
    for at in [*range(53), *range(256, len(VECTOR_BATCH))]:
        changed = bytearray(VECTOR_BATCH)
        changed[at] ^= 0xFF
        assert isinstance(codec.decode_batch(changed), int), at


def test_encode_batches_raises_when_a_message_is_cut_short(codec: ModuleType) -> None:
    message = stored(b"two teapots", ATTEMPT[1:])
    for end in range(1, len(message)):
        with pytest.raises(DecodeError):
            codec.encode_batches(message[:end], 1, 0)
