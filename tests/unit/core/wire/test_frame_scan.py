"""Unit tests of headstream.core.wire.frame_scan."""

from __future__ import annotations

from types import ModuleType

import pytest

from headstream.core.wire.frames import encode_request, encode_response
from tests.support import kernels

scan = kernels.fixture("headstream.core.wire.frame_scan")


def test_scan_frames_finds_whole_requests_and_says_what_the_next_needs(scan: ModuleType) -> None:
    data = encode_request(1) + encode_request(101, b"abc") + encode_request(100, b"defg")[:-1]
    found = scan.scan_frames(memoryview(data), 0, len(data), 1 << 20, True)
    assert found == ([(1, 8, 8), (101, 16, 19)], 19, 12, False)


def test_scan_frames_finds_whole_responses(scan: ModuleType) -> None:
    data = encode_response(0, b"abcd") + encode_response(1012) + b"\0\0"
    found = scan.scan_frames(memoryview(data), 0, len(data), 1 << 20, False)
    assert found == ([(0, 8, 12), (1012, 20, 20)], 20, 8, False)


def test_scan_frames_passes_over_requests_without_room_for_a_code(scan: ModuleType) -> None:
    data = b"\3\0\0\0abc" + b"\0\0\0\0" + encode_request(1)
    found = scan.scan_frames(memoryview(data), 0, len(data), 1 << 20, True)
    assert found.frames == [(0, 7, 7), (0, 11, 11), (1, 19, 19)]
    assert scan.scan_frames(memoryview(data), 0, 5, 1 << 20, True) == ([], 0, 7, False)


def test_scan_frames_stops_at_a_frame_that_is_too_long(scan: ModuleType) -> None:
    data = encode_request(1) + b"\xff\xff\xff\xff" + bytes(20)
    found = scan.scan_frames(memoryview(data), 0, len(data), 64, True)
    assert found == ([(1, 8, 8)], 8, (1 << 32) + 3, True)


def test_scan_frames_refuses_a_range_outside_the_buffer(scan: ModuleType) -> None:
    with pytest.raises(IndexError):
        scan.scan_frames(memoryview(bytes(8)), 0, 9, 64, True)
