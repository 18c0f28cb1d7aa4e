"""stamp: what it writes, byte by byte, and every limit and fault it names."""

from __future__ import annotations

import struct
import uuid
from types import ModuleType

import pytest

from headstream.errors import DecodeError, InvalidInputError, LimitError
from tests.support import kernels
from tests.support.messages.batches import crc32c, header, masked, sent, stored

SEED = bytes(range(16))
NOW = 1_700_000_000_123_456
stamp = kernels.fixture("batch.stored.stamp")


def test_stamp_writes_offset_state_time_and_checksum_of_messages_that_have_an_id(stamp: ModuleType) -> None:
    headers = header("attempt", 9, b"\x03") + header("source", 2, "wéb".encode())
    payloads = [b"first", b"x" * 300, bytes(range(256)) * 5, b"y"]
    batch = b"".join(sent(payload, headers, message_id=7 + i) for i, payload in enumerate(payloads))
    expected = [stored(payload, headers, offset=41 + i, timestamp_us=NOW, message_id=7 + i) for i, payload in enumerate(payloads)]
    result = stamp.stamp(batch, 41, NOW, SEED, False)
    assert result.data == b"".join(expected)
    assert result.count == 4
    assert result.crc32c == crc32c(masked(expected))


def test_stamp_checksums_batches_longer_than_one_stretch(stamp: ModuleType) -> None:
    payloads = [bytes([i % 251]) * (100 + 37 * i) for i in range(60)]
    expected = [stored(payload, offset=i, timestamp_us=NOW, message_id=i + 1) for i, payload in enumerate(payloads)]
    result = stamp.stamp(b"".join(sent(payload, message_id=i + 1) for i, payload in enumerate(payloads)), 0, NOW, SEED, False)
    assert len(result.data) > 3 * 16384
    assert result.data == b"".join(expected)
    assert result.crc32c == crc32c(masked(expected))


def test_stamp_makes_a_time_ordered_uuid_for_a_message_without_id(stamp: ModuleType) -> None:
    result = stamp.stamp(sent(b"a") * 500, 0, NOW, SEED, False)
    made = [uuid.UUID(bytes=bytes(result.data[at + 17 : at + 33])) for at in range(0, len(result.data), 46)]
    assert len(set(made)) == 500
    for one in made:
        assert one.version == 7
        assert one.variant == uuid.RFC_4122
        assert one.int >> 80 == NOW // 1000


def test_stamp_makes_other_ids_of_another_seed_and_the_same_of_the_same(stamp: ModuleType) -> None:
    batch = sent(b"a") * 3
    first, again, other = (stamp.stamp(batch, 0, NOW, seed, False).data for seed in (SEED, SEED, SEED[::-1]))
    assert first == again
    assert {bytes(first[at + 17 : at + 33]) for at in (0, 46, 92)}.isdisjoint(
        {bytes(other[at + 17 : at + 33]) for at in (0, 46, 92)}
    )


def test_stamp_of_nothing_is_a_batch_of_none(stamp: ModuleType) -> None:
    result = stamp.stamp(b"", 0, NOW, SEED, False)
    assert (result.data, result.count, result.crc32c) == (b"", 0, 0)


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview, lambda data: memoryview(b"!" + data)[1:]])
def test_stamp_takes_any_buffer(stamp: ModuleType, wrap: type[bytes]) -> None:
    assert stamp.stamp(wrap(sent(b"abc", message_id=5)), 9, NOW, SEED, False).data == stored(
        b"abc", offset=9, timestamp_us=NOW, message_id=5
    )


WIDE = [
    ("a null header", sent(b"p", header("n", 64, b""))),
    ("a char header", sent(b"p", header("c", 65, b"a\0"))),
    ("an empty raw value", sent(b"p", header("r", 1, b""))),
    ("an empty string", sent(b"p", header("s", 2, b""))),
    ("a long value", sent(b"p", header("r", 1, bytes(256)))),
    ("no payload", sent(b"")),
    ("many bytes of values", sent(b"p", header("r", 1, bytes(255)) * 393)),
    ("many bytes of payload", sent(bytes(10_000_001))),
]


@pytest.mark.parametrize(("name", "batch"), WIDE, ids=[name for name, _ in WIDE])
def test_stamp_takes_under_wide_limits_what_iggy_limits_refuse(stamp: ModuleType, name: str, batch: bytes) -> None:
    assert stamp.stamp(batch, 0, NOW, SEED, True).count == 1
    with pytest.raises(LimitError, match="iggy limits"):
        stamp.stamp(batch, 0, NOW, SEED, False)


def test_stamp_takes_a_batch_of_exactly_the_iggy_limits(stamp: ModuleType) -> None:
    headers = header("k" * 255, 1, bytes(255)) * 392 + header("k", 1, bytes(40))
    assert stamp.stamp(sent(bytes(10_000_000), headers), 0, NOW, SEED, False).count == 1
    with pytest.raises(LimitError, match="100001 bytes of header values"):
        stamp.stamp(sent(b"p", headers + header("k", 1, b"x")), 0, NOW, SEED, False)
    with pytest.raises(LimitError, match="10000001 bytes of payload"):
        stamp.stamp(sent(bytes(10_000_000)) + sent(b"x"), 0, NOW, SEED, False)


def test_stamp_refuses_every_truncation_of_a_batch_and_says_where(stamp: ModuleType) -> None:
    first = sent(b"payload", header("attempt", 9, b"\x03"))
    batch = first + sent(b"second", header("source", 2, b"web"))
    for size in range(1, len(batch)):
        if size == len(first):
            continue
        with pytest.raises(DecodeError) as caught:
            stamp.stamp(batch[:size], 0, NOW, SEED, False)
        error = caught.value
        assert error.need is not None
        assert error.have is not None
        assert error.have < error.need
        assert error.at + error.have == size


def test_stamp_refuses_lengths_that_reach_beyond_the_batch(stamp: ModuleType) -> None:
    huge = struct.pack("<I", 0xFFFFFFFF)
    for batch in (
        bytes(16) + huge + bytes(40),
        bytes(20) + huge + bytes(40),
        sent(b"p", huge + b"k"),
        sent(b"p", struct.pack("<I", 1) + b"k" + b"\x01" + huge + b"v"),
    ):
        with pytest.raises(DecodeError, match="cut short"):
            stamp.stamp(batch, 0, NOW, SEED, True)


@pytest.mark.parametrize(
    ("offset", "time_us", "seed"), [(-1, 0, SEED), (1 << 63, 0, SEED), (0, -1, SEED), (0, 1 << 63, SEED), (0, 0, b"short")]
)
def test_stamp_refuses_arguments_out_of_range(stamp: ModuleType, offset: int, time_us: int, seed: bytes) -> None:
    with pytest.raises(InvalidInputError, match="out of range"):
        stamp.stamp(sent(b"a"), offset, time_us, seed, False)
