"""Verification finds every flipped bit, and repair mends what the data proves and nothing else."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from headstream.connect import connect
from headstream.errors import NotALogError
from headstream.log.checks.partition_verification import verify_partition
from headstream.log.checks.repair import repair_partition
from headstream.log.checks.verification import Verification
from headstream.log.segments.files import BufferPool
from headstream.log.segments.layout import INDEX_SUFFIX, LOG_SUFFIX, segment_path
from headstream.log.system.files import OsFiles
from headstream.log.system.findings import FindingKind, LogFinding
from tests.support.log.logs import SEED, batch, make_files, open_partition
from tests.support.messages.batches import header, sent

FILES = OsFiles()
SENDS = [
    sent(b"one", header("attempt", 4, b"\3")) + sent(b"two"),
    batch(b"three"),
    sent(b"", header("hs.null", 3, b"\1")) + batch(b"five" * 9, b"six"),
    batch(b"seven"),
]


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
    assert found == {(FindingKind.DIRECTORY_MISSING, True), (FindingKind.DIRECTORY_UNKNOWN, False)}


def test_a_damaged_committed_offset_is_a_finding(root: Path) -> None:
    (path,) = root.glob("streams/*/*/offsets/*.offsets")
    flip(path, 512)
    (finding,) = verify_log(root)
    assert (finding.kind, finding.topic, finding.partition) == (FindingKind.OFFSETS, "shop/orders", 1)


def test_a_directory_without_a_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotALogError):
        Verification(str(tmp_path), OsFiles())
