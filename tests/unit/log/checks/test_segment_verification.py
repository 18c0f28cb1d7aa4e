"""Unit tests of headstream.log.checks.segment_verification."""

from __future__ import annotations

from pathlib import Path

import pytest

from headstream.log.checks.repair import repair_partition
from headstream.log.segments.layout import LOG_SUFFIX, segment_path
from headstream.log.system.findings import FindingKind
from tests.unit.log.checks.test_verification import FILES, SENDS, damage, directory, flip

__all__ = ["directory"]  # fixtures

SIZES = [2, 1, 3, 1]


@pytest.mark.parametrize("base", [0, 3])
def test_every_flipped_bit_of_the_messages_is_found_to_the_send(directory: str, base: int) -> None:
    path = Path(segment_path(directory, base, LOG_SUFFIX))
    whole = path.read_bytes()
    sizes = [len(_stored_size(send)) for send in SENDS]
    spans = {0: [(0, 2, 0, sizes[0]), (2, 3, sizes[0], sizes[0] + sizes[1])]}
    spans[3] = [(3, 6, 0, sizes[2]), (6, 7, sizes[2], sizes[2] + sizes[3])]
    assert len(whole) == spans[base][-1][3]
    for byte in range(len(whole)):
        expected = next(span for span in spans[base] if span[2] <= byte < span[3])
        for bit in range(8):
            flip(path, byte, bit)
            found = damage(directory)
            assert len(found) == 1, (byte, bit, found)
            assert (found[0].path, found[0].is_damage) == (str(path), True)
            if found[0].kind is FindingKind.STATE:
                assert found[0].from_byte == byte
            else:
                where = found[0].from_offset, found[0].until_offset, found[0].from_byte, found[0].until_byte
                assert where == expected, (byte, bit)
            flip(path, byte, bit)
    assert path.read_bytes() == whole


def _stored_size(send: bytes) -> bytes:
    """Return bytes as many as a send takes when it is stored: each message gets 21 more."""
    count = SIZES[SENDS.index(send)]
    return bytes(len(send) + 21 * count)


def test_a_damaged_payload_is_named_by_its_offset(directory: str) -> None:
    path = Path(segment_path(directory, 0, LOG_SUFFIX))
    flip(path, path.read_bytes().index(b"two"))
    (finding,) = damage(directory)
    assert "payload of offset 1 is damaged" in finding.what


@pytest.mark.parametrize("base", [0, 3])
def test_missing_messages_are_found(directory: str, base: int) -> None:
    Path(segment_path(directory, base, LOG_SUFFIX)).unlink()
    (finding,) = damage(directory)
    assert (finding.kind, finding.from_offset) == (FindingKind.DATA_MISSING, base)
    assert repair_partition(directory, FILES) == []


def test_messages_that_were_cut_off_are_found(directory: str) -> None:
    path = Path(segment_path(directory, 0, LOG_SUFFIX))
    path.write_bytes(path.read_bytes()[:-1])
    (finding,) = damage(directory)
    assert (finding.kind, finding.from_offset, finding.until_offset) == (FindingKind.DATA_CUT, 2, 3)
