"""What a crash leaves of deleted and purged topics is swept at the writer's opening; what nobody can explain is kept."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import headstream as hs
from headstream.log.checks.repair import repair_log
from headstream.log.checks.verification import Verification
from headstream.log.system.files import OsFiles


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "log"
    with hs.connect(root.as_uri()) as log:
        for name in ("kept", "purged", "deleted"):
            log.create_topic(f"shop/{name}", partitions=2)
            with log.producer(f"shop/{name}") as producer:
                producer.send(name.encode())
    return root


def topics(root: Path) -> set[str]:
    return {path.name for path in (root / "streams" / "1").iterdir()}


def open_as_writer(root: Path) -> list[bytes | None]:
    with hs.connect(root.as_uri()) as log:
        log.create_stream(f"stream{len(log.streams())}")
        return [message.payload for number in (1, 2) for message in log.poll("shop/kept", number, start=0, count=10)]


def findings(root: Path) -> list[tuple[str, str, bool]]:
    found = Verification(str(root), OsFiles()).run()
    return [(finding.kind.value, Path(finding.path).name, finding.is_damage) for finding in found]


def test_directories_of_deleted_and_purged_topics_are_removed(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    shutil.copytree(root / "streams", root.parent / "before")
    with hs.connect(root.as_uri()) as log:
        log.purge_topic("shop/purged")
        log.delete_topic("shop/deleted")
    assert topics(root) == {"1", "4"}
    for old, left in (("2", "2"), ("3", "3"), ("2", "0")):  # as if the process had died before, and while, it removed them
        shutil.copytree(root.parent / "before" / "1" / old, root / "streams" / "1" / left)
    assert {kind for kind, _, _ in findings(root)} == {"directory_strange"}
    assert open_as_writer(root) == [b"kept"]
    assert topics(root) == {"1", "4"}
    assert caplog.text.count("the remaining files of a deleted or purged topic were removed") == 3
    assert findings(root) == []


def test_a_directory_that_the_catalog_does_not_explain_is_set_aside_before_its_number_is_given_again(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copytree(root / "streams" / "1" / "3", root / "streams" / "1" / "4")  # the catalog knows of three numbers
    (root / "streams" / "1" / "5" / "1").mkdir(parents=True)
    assert open_as_writer(root) == [b"kept"]
    (kept,) = (root / "streams" / "1").glob("4.set-aside-*")
    assert [path.read_bytes() for path in kept.glob("*/*.log")] == [
        path.read_bytes() for path in (root / "streams" / "1" / "3").glob("*/*.log")
    ]
    assert "the catalog does not contain this topic: renamed to 4.set-aside-" in caplog.text
    assert topics(root) == {"1", "2", "3", "5", kept.name}
    with hs.connect(root.as_uri()) as log:
        log.create_topic("shop/new", partitions=2)
        assert [log.poll("shop/new", number, start=0) for number in (1, 2)] == [[], []]
    assert ("file_set_aside", kept.name, False) in findings(root)


def drop_empty_directories(root: Path) -> None:
    """Do what version control and archives do to a log."""
    for path in sorted(root.rglob("*"), reverse=True):
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()


@pytest.mark.parametrize("is_read", [False, True])
def test_a_partition_whose_directory_is_missing_refuses_everything_until_a_repair_accepts_the_loss(
    root: Path, caplog: pytest.LogCaptureFixture, is_read: bool
) -> None:
    with hs.connect(root.as_uri()) as log:
        (written,) = {message.partition for message in log.poll("shop/kept")}
        if is_read:
            with log.consumer("shop/kept", group="billing", timeout_ms=0) as consumer:
                list(consumer)
    shutil.rmtree(root / "streams" / "1" / "1" / str(written))
    drop_empty_directories(root)
    assert repair_log(str(root), OsFiles()) == []
    with hs.connect(root.as_uri()) as log:
        with pytest.raises(hs.CorruptLogError, match=r"directory is missing.*--accept-loss"):
            log.send("shop/kept", b"more", partition=written)
        with pytest.raises(hs.PartitionNotFoundError, match="headstream verify"):
            log.poll("shop/kept", written, start=0)
        assert len(log.topics()) == 3
    assert f"{written}: the partition's directory is missing" in caplog.text
    assert [kind for kind, _, is_damage in findings(root) if is_damage] == ["directory_missing"] * 4
    assert len(repair_log(str(root), OsFiles(), accept_loss=True)) == 4
    assert findings(root) == []
    with hs.connect(root.as_uri()) as log:
        assert [log.poll("shop/kept", number, start=0) for number in (1, 2)] == [[], []]
        assert log.send("shop/kept", b"more", partition=written).offset == is_read
        assert [message.payload for message in log.poll("shop/kept", written, start="first")] == [b"more"]
