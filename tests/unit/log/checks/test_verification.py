"""Verification finds every flipped bit, and repair mends what the data proves and nothing else."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from headstream.connect import connect
from headstream.errors import LogLockedError, NotALogError, OffsetOutOfRangeError
from headstream.log.checks.partition_verification import verify_partition
from headstream.log.checks.repair import repair_log, repair_partition
from headstream.log.checks.verification import Verification
from headstream.log.directory.lock import WriterLock
from headstream.log.segments.files import BufferPool
from headstream.log.segments.follower import PartitionFollower
from headstream.log.segments.layout import DROPPED_SUFFIX, INDEX_SUFFIX, LOG_SUFFIX, segment_path
from headstream.log.system.files import OsFiles
from headstream.log.system.findings import FindingKind, LogFinding
from tests.support.log.logs import SEED, batch, make_files, open_partition, payloads, read_all
from tests.support.messages.batches import header, sent, stored

FILES = OsFiles()
SENDS = [
    sent(b"one", header("attempt", 4, b"\3")) + sent(b"two"),
    batch(b"three"),
    sent(b"", header("hs.null", 3, b"\1")) + batch(b"five" * 9, b"six"),
    batch(b"seven"),
]
SIZES = [2, 1, 3, 1]


@pytest.fixture
def directory(tmp_path: Path) -> str:
    """A partition of two segments: sends of offsets 0-1 and 2, then 3-5 and 6."""
    files, directory = make_files("os", tmp_path)
    partition = open_partition(files, directory, segment_bytes=250, wide=True)
    for number, send in enumerate(SENDS):
        partition.append(send, 100 + number, SEED)
    partition.close()
    assert sorted(path.name for path in Path(directory).glob("*.log")) == [f"{0:020d}.log", f"{3:020d}.log"]
    return directory


def verify(directory: str) -> list[LogFinding]:
    return list(verify_partition(directory, FILES, BufferPool()))


def damage(directory: str) -> list[LogFinding]:
    return [finding for finding in verify(directory) if finding.is_damage]


def flip(path: Path, byte: int, bit: int = 0) -> None:
    with path.open("r+b") as file:
        file.seek(byte)
        value = file.read(1)[0]
        file.seek(byte)
        file.write(bytes([value ^ 1 << bit]))


def content(directory: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(directory).iterdir()}


def test_a_sound_partition_has_no_findings(directory: str) -> None:
    checked: list[int] = []
    assert list(verify_partition(directory, FILES, BufferPool(), checked.append)) == []
    assert sum(checked) == sum(path.stat().st_size for path in Path(directory).glob("*.log"))


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


def test_a_damaged_payload_is_named_by_its_offset(directory: str) -> None:
    path = Path(segment_path(directory, 0, LOG_SUFFIX))
    flip(path, path.read_bytes().index(b"two"))
    (finding,) = damage(directory)
    assert "payload of offset 1 is damaged" in finding.what


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
def test_a_missing_index_is_found_and_built_again_as_it_was(directory: str, base: int) -> None:
    path = Path(segment_path(directory, base, INDEX_SUFFIX))
    whole = path.read_bytes()
    path.unlink()
    (finding,) = damage(directory)
    assert (finding.kind, finding.from_offset) == (FindingKind.INDEX_MISSING, base)
    assert [action.path for action in repair_partition(directory, FILES)] == [str(path)]
    assert path.read_bytes() == whole
    assert verify(directory) == []


def test_a_missing_index_is_not_built_from_damaged_messages(directory: str) -> None:
    path = Path(segment_path(directory, 0, LOG_SUFFIX))
    Path(segment_path(directory, 0, INDEX_SUFFIX)).unlink()
    flip(path, path.read_bytes().index(b"two"))
    assert repair_partition(directory, FILES) == []
    assert [finding.kind for finding in damage(directory)] == [FindingKind.INDEX_MISSING]


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


@pytest.mark.parametrize("base", [0, 3])
def test_missing_messages_are_found(directory: str, base: int) -> None:
    Path(segment_path(directory, base, LOG_SUFFIX)).unlink()
    (finding,) = damage(directory)
    assert (finding.kind, finding.from_offset) == (FindingKind.DATA_MISSING, base)
    assert repair_partition(directory, FILES) == []


def test_a_segment_that_retention_is_removing_is_no_damage(directory: str) -> None:
    Path(segment_path(directory, 0, LOG_SUFFIX)).rename(segment_path(directory, 0, DROPPED_SUFFIX))
    assert verify(directory) == []
    with PartitionFollower(directory) as follower, pytest.raises(OffsetOutOfRangeError, match="were dropped by retention"):
        list(follower.read(0))


def test_messages_that_were_cut_off_are_found(directory: str) -> None:
    path = Path(segment_path(directory, 0, LOG_SUFFIX))
    path.write_bytes(path.read_bytes()[:-1])
    (finding,) = damage(directory)
    assert (finding.kind, finding.from_offset, finding.until_offset) == (FindingKind.DATA_CUT, 2, 3)


def test_a_missing_segment_is_a_gap(directory: str) -> None:
    partition = open_partition(FILES, directory, segment_bytes=4096, wide=True)
    partition.append(batch(b"x" * 5000), 200, SEED)
    partition.close()
    for suffix in (LOG_SUFFIX, INDEX_SUFFIX):
        Path(segment_path(directory, 3, suffix)).unlink()
    (finding,) = damage(directory)
    assert (finding.kind, finding.from_offset, finding.until_offset) == (FindingKind.GAP, 3, 7)


def test_what_a_killed_writer_leaves_is_a_note_and_is_cut(directory: str) -> None:
    data, index = (Path(segment_path(directory, 3, suffix)) for suffix in (LOG_SUFFIX, INDEX_SUFFIX))
    whole = data.read_bytes(), index.read_bytes()
    data.write_bytes(whole[0] + stored(b"torn", offset=7, timestamp_us=900)[:-1])
    index.write_bytes(whole[1] + b"\1" * 7)
    found = verify(directory)
    assert [(finding.kind, finding.is_damage) for finding in found] == [(FindingKind.TAIL, False)] * 2
    assert repair_partition(directory, FILES)
    assert (data.read_bytes(), index.read_bytes()) == whole
    assert verify(directory) == []


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
    assert [(finding.kind, finding.is_damage) for finding in verify(directory)] == [(FindingKind.FILE_STRANGE, False)]
    repair_partition(directory, FILES)
    (kept,) = Path(directory).glob("notes.txt.set-aside-*")
    assert kept.read_bytes() == b"mine"
    assert [finding.kind for finding in verify(directory)] == [FindingKind.FILE_SET_ASIDE]
    assert repair_partition(directory, FILES) == []
    assert len(payloads(read_all(FILES, directory))) == 7


# -- a whole log --------------------------------------------------------------------------------------------


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "log"
    with connect(root.as_uri()) as log:
        log.create_topic("shop/orders", partitions=2)
        with log.producer("shop/orders") as producer:
            producer.send(b"hello", partition=1)
        log.poll("shop/orders", 1, consumer="billing", auto_commit=True)
    return root


def verify_log(root: Path) -> list[LogFinding]:
    return list(Verification(str(root), OsFiles()).run())


def test_a_sound_log_has_no_findings(root: Path) -> None:
    assert verify_log(root) == []


def test_verification_of_a_live_log_needs_no_lock(root: Path) -> None:
    with connect(root.as_uri()) as log, log.producer("shop/orders") as producer:
        for number in range(20):
            producer.send(b"%d" % number)
            producer.flush()
            assert verify_log(root) == []


def test_repair_needs_the_writers_lock(root: Path) -> None:
    lock = WriterLock(str(root / "headstream.lock"))
    lock.acquire()
    with pytest.raises(LogLockedError):
        repair_log(str(root), OsFiles())
    lock.release()
    assert repair_log(str(root), OsFiles()) == []


def test_findings_name_topic_and_partition(root: Path) -> None:
    (path,) = root.glob("streams/*/*/1/*.log")
    flip(path, 46)
    (finding,) = verify_log(root)
    assert (finding.topic, finding.partition, finding.from_offset) == ("shop/orders", 1, 0)


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("headstream.json", b"{", FindingKind.MARKER),
        ("headstream.json", b'{"format": 1, "identity": "x", "created_us": 1}', FindingKind.MARKER),
        ("catalog.sqlite", b"no database" * 100, FindingKind.CATALOG),
        ("catalog.sqlite", None, FindingKind.CATALOG),
    ],
)
def test_a_damaged_marker_or_catalog_is_a_finding(root: Path, name: str, data: bytes | None, kind: FindingKind) -> None:
    if data is None:
        (root / name).unlink()
    else:
        (root / name).write_bytes(data)
    assert [finding.kind for finding in verify_log(root)] == [kind]


def test_directories_are_held_against_the_catalog(root: Path) -> None:
    (partition,) = root.glob("streams/*/*/2")
    shutil.rmtree(partition)
    (root / "streams" / "9" / "9").mkdir(parents=True)
    found = {(finding.kind, finding.is_damage) for finding in verify_log(root)}
    assert found == {(FindingKind.DIRECTORY_MISSING, True), (FindingKind.DIRECTORY_STRANGE, False)}


def test_a_damaged_committed_offset_is_a_finding(root: Path) -> None:
    (path,) = root.glob("streams/*/*/offsets/*.offsets")
    flip(path, 512)
    (finding,) = verify_log(root)
    assert (finding.kind, finding.topic, finding.partition) == (FindingKind.OFFSETS, "shop/orders", 1)


def test_a_directory_without_a_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotALogError):
        Verification(str(tmp_path), OsFiles())
