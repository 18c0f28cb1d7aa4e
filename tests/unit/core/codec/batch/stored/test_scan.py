"""scan and its companions: where messages begin and end, and what a range holds."""

from __future__ import annotations

import pickle
from types import ModuleType

import pytest

from headstream.errors import DecodeError, InvalidInputError
from tests.support import kernels
from tests.support.messages.batches import crc32c, header, masked, stored

MESSAGES = [
    stored(b"first", header("attempt", 9, b"\x03"), offset=10, timestamp_us=100),
    stored(b"s" * 700, offset=11, state=20, timestamp_us=100),
    stored(b"", header("hs.null", 3, b"\x01"), offset=12, timestamp_us=105),
    stored(bytes(3000), header("k", 2, b"v") * 3, offset=13, state=200, timestamp_us=110),
    stored(b"last", offset=14, timestamp_us=120),
]
BATCH = b"".join(MESSAGES)
STARTS = [len(b"".join(MESSAGES[:i])) for i in range(len(MESSAGES) + 1)]
scan = kernels.fixture("batch.stored.scan")


def test_scan_says_what_a_range_holds(scan: ModuleType) -> None:
    found = scan.scan(BATCH)
    assert (found.count, found.end, found.fault) == (5, len(BATCH), None)
    assert (found.first_offset, found.last_offset) == (10, 14)
    assert (found.first_timestamp_us, found.last_timestamp_us) == (100, 120)
    assert found.crc32c == crc32c(masked(MESSAGES)) == scan.masked_crc32c(BATCH)


def test_scan_begins_where_it_is_told(scan: ModuleType) -> None:
    found = scan.scan(BATCH, STARTS[3])
    assert (found.count, found.end, found.first_offset, found.last_offset) == (2, len(BATCH), 13, 14)
    assert found.crc32c == crc32c(masked(MESSAGES[3:]))


def test_scan_of_nothing_finds_nothing(scan: ModuleType) -> None:
    for data, start in ((b"", 0), (BATCH, len(BATCH))):
        found = scan.scan(data, start)
        assert (found.count, found.end, found.first_offset, found.crc32c, found.fault) == (0, start, -1, 0, None)


def test_scan_checksum_does_not_change_when_a_state_does(scan: ModuleType) -> None:
    changed = bytearray(BATCH)
    for start in STARTS[:-1]:
        changed[start + 8] = 77
    assert scan.scan(changed).crc32c == scan.scan(BATCH).crc32c
    changed[STARTS[1] + 9] ^= 1
    assert scan.scan(changed).crc32c != scan.scan(BATCH).crc32c


def test_scan_checksum_of_many_small_messages_and_some_long_ones(scan: ModuleType) -> None:
    messages = [stored(bytes([i % 256]) * (i * 7 % 900), offset=i) for i in range(120)]
    messages.insert(60, stored(bytes(50_000), offset=60))
    assert scan.scan(b"".join(messages)).crc32c == crc32c(masked(messages))


def test_scan_stops_at_a_message_that_is_cut_short_anywhere(scan: ModuleType) -> None:
    for size in range(STARTS[1] + 1, STARTS[2]):
        found = scan.scan(BATCH[:size])
        assert (found.count, found.end, found.last_offset) == (1, STARTS[1], 10)
        assert isinstance(found.fault, DecodeError)
        assert found.fault.have is not None
        assert found.fault.at + found.fault.have == size


@pytest.mark.parametrize(
    ("block", "text"),
    [
        (b"abc", "a header is cut short"),
        (header("k", 1, b"v")[:-1], "a header value is cut short"),
        (b"\x09\0\0\0key", "a header key is cut short"),
        (b"\0\0\0\0\x01\0\0\0\0", "a header key must have 1 to 255 bytes"),
        (header("k" * 256, 1, b"v"), "a header key must have 1 to 255 bytes"),
    ],
)
def test_scan_stops_at_a_malformed_header_block(scan: ModuleType, block: bytes, text: str) -> None:
    found = scan.scan(BATCH + stored(b"p", block, offset=15))
    assert (found.count, found.end) == (5, len(BATCH))
    assert text in str(found.fault)
    assert found.fault.at >= len(BATCH) + 41


def test_scan_results_cross_a_process_border(scan: ModuleType) -> None:
    found = scan.scan(BATCH[:-1])
    again = pickle.loads(pickle.dumps(found))
    assert str(again.fault) == str(found.fault)
    assert (again.count, again.crc32c) == (found.count, found.crc32c)


def test_masked_crc32c_refuses_what_is_not_whole(scan: ModuleType) -> None:
    with pytest.raises(DecodeError, match="message's payload is cut short"):
        scan.masked_crc32c(BATCH[:-1])


def test_find_offset_gives_the_first_message_at_or_after_it(scan: ModuleType) -> None:
    assert [scan.find_offset(BATCH, offset) for offset in (-5, 0, 10, 11, 12, 13, 14)] == [0, 0, *STARTS[:5]]
    assert scan.find_offset(BATCH, 15) == scan.find_offset(BATCH, 1 << 70) == len(BATCH)
    assert scan.find_offset(BATCH, 0, STARTS[2]) == STARTS[2]
    assert scan.find_offset(b"", 0) == 0


def test_find_timestamp_gives_the_first_message_at_or_after_it(scan: ModuleType) -> None:
    assert [scan.find_timestamp(BATCH, at) for at in (0, 100, 101, 105, 111, 120)] == [0, 0, *(STARTS[i] for i in (2, 2, 4, 4))]
    assert scan.find_timestamp(BATCH, 121) == len(BATCH)


def test_find_states_lists_the_messages_that_are_not_available(scan: ModuleType) -> None:
    assert scan.find_states(BATCH) == [(STARTS[1], 11, 20), (STARTS[3], 13, 200)]
    assert scan.find_states(BATCH, STARTS[2]) == [(STARTS[3], 13, 200)]
    assert scan.find_states(BATCH[: STARTS[1]]) == []


def test_take_cuts_by_count_and_by_bytes_but_takes_at_least_one(scan: ModuleType) -> None:
    assert scan.take(BATCH, 0, 100, 1 << 40) == (len(BATCH), 5)
    assert scan.take(BATCH, 0, 2, 1 << 40) == (STARTS[2], 2)
    assert scan.take(BATCH, 0, 100, STARTS[3]) == (STARTS[3], 3)
    assert scan.take(BATCH, 0, 100, STARTS[3] - 1) == (STARTS[2], 2)
    assert scan.take(BATCH, STARTS[3], 100, 1) == (STARTS[4], 1)
    assert scan.take(BATCH, 0, 0, 1 << 40) == (0, 0)
    assert scan.take(BATCH, len(BATCH), 5, 5) == (len(BATCH), 0)


def test_the_finders_refuse_a_message_that_is_cut_short_before_what_they_look_for(scan: ModuleType) -> None:
    broken = BATCH[: STARTS[1] + 50]
    assert scan.find_offset(broken, 10) == 0
    assert scan.take(broken, 0, 1, 1) == (STARTS[1], 1)
    with pytest.raises(DecodeError) as caught:
        scan.find_offset(broken, 12)
    assert STARTS[1] <= caught.value.at < len(broken)
    with pytest.raises(DecodeError, match="cut short"):
        scan.find_timestamp(broken, 300)
    with pytest.raises(DecodeError, match="cut short"):
        scan.find_states(broken[:-60])
    with pytest.raises(DecodeError, match="cut short"):
        scan.take(broken, 0, 2, 1 << 40)


def test_a_start_outside_the_bytes_is_refused(scan: ModuleType) -> None:
    for start in (-1, len(BATCH) + 1):
        with pytest.raises(InvalidInputError, match="is outside"):
            scan.scan(BATCH, start)
        with pytest.raises(InvalidInputError, match="is outside"):
            scan.take(BATCH, start, 1, 1)
