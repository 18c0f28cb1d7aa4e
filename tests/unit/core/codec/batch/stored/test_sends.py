"""check_sends, extend_crc32c, make_rows: sends against the rows that say where they lie."""

from __future__ import annotations

from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headstream.log.segments.layout import INDEX_ENTRY_BYTES, IndexEntry, encode_entry
from tests.support import kernels
from tests.support.messages.batches import crc32c, header, masked, stored

BASE = 7 << 32 | 5
SENDS = [
    [stored(b"one", header("attempt", 9, b"\x03"), offset=BASE, timestamp_us=100)],
    [stored(bytes(700), offset=BASE + 1, timestamp_us=120), stored(b"", offset=BASE + 2, timestamp_us=120)],
    [stored(b"x" * number, offset=BASE + 3 + number, timestamp_us=121) for number in range(9)],
]
DATA = [b"".join(send) for send in SENDS]


def rows_of(sends: list[list[bytes]], position: int, offset: int) -> bytes:
    rows = b""
    for send in sends:
        data = b"".join(send)
        time_us = int.from_bytes(data[9:17], "little")
        rows += encode_entry(IndexEntry(position, len(data), offset, len(send), time_us, crc32c(masked(send))), BASE)
        position, offset = position + len(data), offset + len(send)
    return rows


ROWS = rows_of(SENDS, 1000, BASE)
sends = kernels.fixture("batch.stored.sends")


@pytest.mark.parametrize("thorough", [False, True])
def test_check_sends_counts_all_when_they_are_whole(sends: ModuleType, thorough: bool) -> None:
    assert sends.check_sends(b"".join(DATA), ROWS, BASE, thorough=thorough) == 3
    assert sends.check_sends(b"".join(DATA[1:]), ROWS[INDEX_ENTRY_BYTES:], BASE, thorough=thorough) == 2
    assert sends.check_sends(b"", b"", BASE, thorough=thorough) == 0


def test_check_sends_counts_up_to_the_first_that_is_cut_short(sends: ModuleType) -> None:
    data = b"".join(DATA)
    ends = [len(DATA[0]), len(DATA[0] + DATA[1]), len(data)]
    for size in range(len(data) + 1):
        assert sends.check_sends(data[:size], ROWS, BASE) == sum(end <= size for end in ends)


@pytest.mark.parametrize("thorough", [False, True])
def test_check_sends_goes_on_where_it_was_when_more_of_the_bytes_comes(sends: ModuleType, thorough: bool) -> None:
    data = b"".join(DATA)
    ends = [len(DATA[0]), len(DATA[0] + DATA[1]), len(data)]
    for step in (1, 7, 46, 300, len(data)):
        notes, copy = sends.new_check(), bytearray(data)
        for size in (*range(0, len(data), step), len(data)):
            seen = memoryview(copy)[:size]
            whole = sends.check_sends(seen, ROWS, BASE, thorough=thorough, notes=notes)
            assert whole == sum(end <= size for end in ends), (step, size)
        assert copy == data


def test_check_sends_never_passes_a_damaged_send_when_more_of_the_bytes_comes(sends: ModuleType) -> None:
    data = b"".join(DATA)
    for at in (len(DATA[0]) + 3, len(DATA[0]) + 100, len(DATA[0] + DATA[1]) - 1):
        damaged = bytearray(data)
        damaged[at] ^= 1
        for step in (1, 50, 333, len(data)):
            notes = sends.new_check()
            counts = [
                sends.check_sends(damaged[:size], ROWS, BASE, notes=notes) for size in (*range(0, len(data), step), len(data))
            ]
            assert counts[-1] == 1, (at, step)


def test_check_sends_stops_at_any_flipped_bit_but_the_states(sends: ModuleType) -> None:
    data = bytearray(DATA[0] + DATA[1][: len(SENDS[1][0])])
    rows = rows_of([SENDS[0], SENDS[1][:1]], 1000, BASE)
    states = (8, len(DATA[0]) + 8)
    for at in range(len(data)):
        data[at] ^= 1 << at % 8
        expected = 2 if at in states else int(at >= len(DATA[0]))
        assert sends.check_sends(data, rows, BASE) == expected, at
        assert sends.check_sends(data, rows, BASE, thorough=True) == int(at >= len(DATA[0])), at
        data[at] ^= 1 << at % 8
    for at in range(len(ROWS)):
        damaged = bytearray(ROWS)
        damaged[at] ^= 0x10
        assert sends.check_sends(b"".join(DATA), damaged, BASE) == at // INDEX_ENTRY_BYTES, at
    assert sends.check_sends(b"".join(DATA), ROWS, BASE + 1) == 0


def test_check_sends_that_is_thorough_looks_at_payloads_and_times(sends: ModuleType) -> None:
    wrong = bytearray(stored(b"payload", offset=BASE, timestamp_us=100))
    wrong[33] ^= 1  # its own checksum, under a good one of the send
    assert sends.check_sends(wrong, rows_of([[bytes(wrong)]], 0, BASE), BASE) == 1
    assert sends.check_sends(wrong, rows_of([[bytes(wrong)]], 0, BASE), BASE, thorough=True) == 0
    times = [stored(b"a", offset=BASE, timestamp_us=1), stored(b"b", offset=BASE + 1, timestamp_us=2)]
    assert sends.check_sends(b"".join(times), rows_of([times], 0, BASE), BASE) == 1
    assert sends.check_sends(b"".join(times), rows_of([times], 0, BASE), BASE, thorough=True) == 0


def test_extend_crc32c_goes_on_where_a_message_is_cut(sends: ModuleType) -> None:
    data, value, at = DATA[2], 0, 0
    while at < len(data):
        end, value = sends.extend_crc32c(data[at : at + 120], value)
        assert end
        at += end
    assert value == crc32c(masked(SENDS[2]))
    assert sends.extend_crc32c(data[:30], 5) == (0, 5)


def test_make_rows_makes_one_for_each_run_of_a_time(sends: ModuleType) -> None:
    made = sends.make_rows(b"".join(DATA), BASE, 1000, BASE)
    assert (made.rows, made.end, made.until_offset, made.fault) == (ROWS, len(b"".join(DATA)), BASE + 12, "")
    assert sends.make_rows(b"", BASE, 0, BASE).rows == b""


def test_make_rows_ends_where_nothing_more_is_proven(sends: ModuleType) -> None:
    data, first = b"".join(DATA), len(DATA[0])
    for cut in range(first + 1, first + len(SENDS[1][0])):
        made = sends.make_rows(data[:cut], BASE, 1000, BASE)
        assert (made.rows, made.end, made.until_offset, made.fault) == (ROWS[:32], first, BASE + 1, "cut")
    strange = DATA[0] + stored(b"2", offset=BASE + 2, timestamp_us=120)
    assert (sends.make_rows(strange, BASE, 1000, BASE).end, sends.make_rows(strange, BASE, 1000, BASE).fault) == (first, "offset")
    damaged = bytearray(data)
    damaged[first - 1] ^= 1
    assert (sends.make_rows(damaged, BASE, 1000, BASE).end, sends.make_rows(damaged, BASE, 1000, BASE).fault) == (0, "payload")


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300), st.binary(max_size=96), st.integers(0, 1 << 40))
def test_kernels_of_sends_take_any_bytes_without_an_error(data: bytes, rows: bytes, base: int) -> None:
    for module in kernels.variants("batch.stored.sends"):
        assert 0 <= module.check_sends(data, rows, base, thorough=True) <= len(rows) // 32
        assert 0 <= module.extend_crc32c(data, 0)[0] <= len(data)
        assert 0 <= module.make_rows(data, base, 0, base).end <= len(data)
