"""Unit tests of headstream.log.checks.repair."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from headstream.errors import LogLockedError
from headstream.log.checks.repair import repair_log, repair_partition
from headstream.log.directory.lock import WriterLock
from headstream.log.segments.layout import INDEX_SUFFIX, LOG_SUFFIX, segment_path
from headstream.log.system.files import OsFiles
from headstream.log.system.findings import FindingKind
from tests.support.log.logs import payloads, read_all
from tests.unit.log.checks.test_verification import FILES, damage, directory, flip, root, verify

__all__ = ["directory", "root"]  # fixtures


def content(directory: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(directory).iterdir()}


@pytest.mark.parametrize("base", [0, 3])
def test_every_flipped_bit_of_an_index_is_found_and_repaired(directory: str, base: int) -> None:
    path = Path(segment_path(directory, base, INDEX_SUFFIX))
    whole = path.read_bytes()
    for byte in range(len(whole)):
        for bit in range(8):
            flip(path, byte, bit)
            is_seal = base == 0 and byte >= len(whole) - 32
            found = verify(directory) if is_seal else damage(directory)
            assert found, (byte, bit)
            assert all(finding.path == str(path) and finding.is_damage is not is_seal for finding in found)
            if byte >= 32:
                assert found[0].from_byte == byte // 32 * 32
            if bit == byte % 8:
                assert repair_partition(directory, FILES)
                assert path.read_bytes() == whole, (byte, bit)
                for kept in Path(directory).glob("*.set-aside-*"):
                    kept.unlink()
                assert verify(directory) == []
            path.write_bytes(whole)


def test_a_send_that_was_changed_is_not_repaired_and_nothing_is_touched(directory: str) -> None:
    flip(Path(segment_path(directory, 3, LOG_SUFFIX)), 50)
    before = content(directory)
    assert repair_partition(directory, FILES) == []
    assert content(directory) == before
    assert [finding.kind for finding in damage(directory)] == [FindingKind.SEND]


def test_repair_does_not_make_damage_look_sound(directory: str) -> None:
    flip(Path(segment_path(directory, 0, LOG_SUFFIX)), 70)  # in the first send
    flip(Path(segment_path(directory, 0, INDEX_SUFFIX)), 32 + 32 + 5)  # the second send's entry
    repair_partition(directory, FILES)
    (finding,) = damage(directory)
    assert (finding.kind, finding.from_offset, finding.until_offset) == (FindingKind.SEND, 0, 2)


@pytest.mark.parametrize("base", [0, 3])
@pytest.mark.parametrize("kept", [1, 0])
def test_a_short_index_is_found_and_completed(directory: str, base: int, kept: int) -> None:
    path = Path(segment_path(directory, base, INDEX_SUFFIX))
    whole = path.read_bytes()
    path.write_bytes(whole[: 32 + 32 * kept])
    found = verify(directory)
    if base == 3 and kept == 1:  # one send behind the end is what a killed writer leaves
        assert [(finding.kind, finding.is_damage) for finding in found] == [(FindingKind.TAIL, False)]
        return
    assert [finding.kind for finding in found] == [FindingKind.INDEX_SHORT]
    repair_partition(directory, FILES)
    assert path.read_bytes() == whole
    assert damage(directory) == []


def test_swapped_and_foreign_entries_are_found_and_put_right(directory: str) -> None:
    path = Path(segment_path(directory, 0, INDEX_SUFFIX))
    whole = path.read_bytes()
    path.write_bytes(whole[:32] + whole[64:96] + whole[32:64])
    assert FindingKind.INDEX_ORDER in {finding.kind for finding in damage(directory)}
    shutil.copy(segment_path(directory, 3, INDEX_SUFFIX), path)
    found = {finding.kind for finding in damage(directory)}
    assert {FindingKind.INDEX_HEAD, FindingKind.INDEX_ENTRY} <= found
    repair_partition(directory, FILES)
    assert path.read_bytes() == whole
    assert damage(directory) == []


@pytest.mark.parametrize(("cut", "last"), [(1, 5), (25, 5), (44, 2), (53, 2)])
def test_a_torn_message_behind_a_missing_index_is_set_aside_with_its_send(directory: str, cut: int, last: int) -> None:
    data = Path(segment_path(directory, 3, LOG_SUFFIX))
    whole = data.read_bytes()
    Path(segment_path(directory, 3, INDEX_SUFFIX)).unlink()
    data.write_bytes(whole[:-cut])
    repair_partition(directory, FILES)
    (kept,) = Path(directory).glob(f"*{LOG_SUFFIX}.set-aside-*")
    assert data.read_bytes() + kept.read_bytes() == whole[:-cut]
    assert damage(directory) == []
    assert [message.offset for message in read_all(FILES, directory)][-1] == last


def test_a_strange_file_is_set_aside_not_deleted(directory: str) -> None:
    (Path(directory) / "notes.txt").write_bytes(b"mine")
    assert [(finding.kind, finding.is_damage) for finding in verify(directory)] == [(FindingKind.FILE_UNKNOWN, False)]
    repair_partition(directory, FILES)
    (kept,) = Path(directory).glob("notes.txt.set-aside-*")
    assert kept.read_bytes() == b"mine"
    assert [finding.kind for finding in verify(directory)] == [FindingKind.FILE_SET_ASIDE]
    assert repair_partition(directory, FILES) == []
    assert len(payloads(read_all(FILES, directory))) == 7


def test_repair_needs_the_writers_lock(root: Path) -> None:
    lock = WriterLock(str(root / "headstream.lock"))
    lock.acquire()
    with pytest.raises(LogLockedError):
        repair_log(str(root), OsFiles())
    lock.release()
    assert repair_log(str(root), OsFiles()) == []
