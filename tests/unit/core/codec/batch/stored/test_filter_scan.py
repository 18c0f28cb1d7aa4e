"""The kernel of filters: limits, many runs, policies, and bytes that are not messages."""

from __future__ import annotations

from types import ModuleType

import pytest

from headstream.core.codec.binary import decode_polled, encode_polled
from headstream.core.filters.filter import parse_filter
from headstream.core.model import constructors as kinds
from headstream.core.model.headers import Headers
from headstream.core.model.message import Message
from headstream.errors import DecodeError
from tests.support import kernels

scan = kernels.fixture("batch.stored.filter_scan")


def stored(count: int, payload: bytes = b"x") -> bytes:
    """Return messages whose header `n` is their offset."""
    return encode_polled(
        Message(payload=payload, offset=number, timestamp=1, headers=Headers({"n": kinds.uint32(number), "odd": number % 2 == 1}))
        for number in range(count)
    )


def test_a_scan_copies_many_runs_in_order(scan: ModuleType) -> None:
    data = stored(1500)
    found = scan.filter_stored(data, parse_filter("odd").program, 10_000, 1 << 30)
    assert [message.offset for message in decode_polled(found.data)] == [*range(1, 1500, 2)]
    assert (found.count, found.end, found.scanned_count, found.failed_count, found.is_stopped) == (750, len(data), 1500, 0, False)


def test_a_scan_returns_its_input_if_all_of_it_matches(scan: ModuleType) -> None:
    data = bytearray(stored(10))
    found = scan.filter_stored(data, parse_filter("n >= 0").program, 10, 1 << 30)
    assert found.data == data
    assert found.data.obj is data


def test_a_scan_stops_at_the_count_and_at_the_size_behind_the_message_that_reaches_it(scan: ModuleType) -> None:
    data, one = stored(100), len(stored(1))
    found = scan.filter_stored(data, parse_filter("odd").program, 3, 1 << 30)
    assert (found.count, found.end, found.scanned_count) == (3, 6 * one, 6)
    found = scan.filter_stored(data, parse_filter("odd").program, 100, one + 1, start=10 * one)
    assert [message.offset for message in decode_polled(found.data)] == [11, 13]
    assert scan.filter_stored(data, parse_filter("odd").program, 100, 1).count == 1


def test_a_scan_stops_before_a_message_that_fails_if_the_policy_says_so(scan: ModuleType) -> None:
    rows = [3, 4, "x", 5]
    data = encode_polled(
        Message(payload=b"", offset=number, timestamp=1, headers=Headers({"n": value})) for number, value in enumerate(rows)
    )
    program = parse_filter("n > 3").program
    stopped = scan.filter_stored(data, program, 10, 1 << 30, on_failure=2)
    assert (stopped.count, stopped.scanned_count, stopped.is_stopped) == (1, 2, True)
    assert decode_polled(data[stopped.end :])[0].offset == 2
    again = scan.filter_stored(data, program, 10, 1 << 30, start=stopped.end, on_failure=2)
    assert (again.count, again.end, again.is_stopped) == (0, stopped.end, True)
    assert scan.filter_stored(data, program, 10, 1 << 30).failed_count == 1
    assert scan.filter_stored(data, program, 10, 1 << 30, on_failure=1).count == 3


def test_bytes_that_are_cut_or_whose_lengths_are_wrong_are_an_error_or_read_as_they_are(scan: ModuleType) -> None:
    data = stored(2)
    program = parse_filter("n = 1 OR _size = 0 OR _key IS NULL").program
    for size in range(1, len(data)):
        if size == len(data) // 2:
            continue
        with pytest.raises(DecodeError):
            scan.filter_stored(data[:size], program, 10, 1 << 30)
    for at in range(len(data)):
        for value in (0, 1, 0x7F, 0xFF):
            changed = bytearray(data)
            changed[at] = value
            try:
                found = scan.filter_stored(changed, program, 10, 1 << 30)
            except DecodeError:
                continue
            assert found.count <= 2


def test_a_scan_of_nothing_finds_nothing(scan: ModuleType) -> None:
    found = scan.filter_stored(b"", parse_filter("TRUE").program, 10, 10)
    assert (found.count, found.end, len(found.data)) == (0, 0, 0)
