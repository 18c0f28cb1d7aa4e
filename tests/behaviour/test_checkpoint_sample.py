"""Checkpoints that earlier versions wrote, checkpoint-3 by 0.1: later pipelines open them with all that they hold."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest
from tools import make_checkpoint_sample as written  # its constants are what the samples hold

import headstream as hs
from headstream.log.checks.verification import Verification
from headstream.log.system.files import OsFiles
from headstream.replicate.checkpoint.records import read_record
from headstream.replicate.checkpoint.store_objects import CheckpointObjects
from headstream.replicate.parked.ledger import Ledger
from headstream.replicate.storage.places import StorePlace
from headstream.replicate.tables.table_memory import TableMemory

SAMPLES = Path(__file__).parents[1] / "samples"
COMPLETE = ("checkpoint-0.2.0", "checkpoint-0.3.0")


@pytest.fixture(params=["checkpoint-3", *COMPLETE])
def checkpoint(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return Path(shutil.copytree(SAMPLES / str(request.param), tmp_path / "checkpoint"))


def check_log(checkpoint: Path) -> None:
    with hs.connect((checkpoint / "log").as_uri()) as log:
        for topic, payloads in written.PAYLOADS.items():
            messages = log.poll(topic, 1, start=0, count=100)
            assert [message.payload for message in messages] == payloads
            assert all(message.verify() for message in messages)
    assert list(Verification(str(checkpoint / "log"), OsFiles()).run()) == []


def test_a_checkpoint_of_an_earlier_version_is_read_whole(checkpoint: Path) -> None:
    with closing(Ledger(checkpoint / "ledger.sqlite", read_only=True)) as ledger:
        assert tuple(sorted(ledger.parked_batches("parked", "dead"), key=lambda parked_batch: parked_batch.id)) == written.PARCELS
        assert ledger.mark("sample") == "3"
    with closing(TableMemory(checkpoint / "tables.sqlite")) as memory:
        assert list(memory.names()) == [written.TABLE]
        assert memory.find(written.TABLE) == written.STATE
    check_log(checkpoint)


def test_a_checkpoint_of_an_earlier_version_is_continued(checkpoint: Path) -> None:
    with closing(Ledger(checkpoint / "ledger.sqlite")) as ledger:
        number = ledger.begin_release(["A"], (), 10)
        assert number is not None
        released = ledger.released(number)
        assert sorted(parked_batch.id for parked_batch in released) == [1, 3]  # also of a transaction that is not open
        ledger.finish_release(number, released)
    with closing(Ledger(checkpoint / "ledger.sqlite")) as ledger:
        assert ledger.unfinished_release() is None
        assert len(ledger.parked_batches("dead")) == 1
    check_log(checkpoint)


@pytest.mark.parametrize("name", COMPLETE)
def test_a_record_of_a_checkpoint_in_an_object_store_has_its_files(tmp_path: Path, name: str) -> None:
    record = read_record((SAMPLES / f"{name}.record").read_bytes(), "the sample")
    assert (record.kind, record.number, record.driver, record.chunks[1:]) == ("commits", 1, "sample", [])
    CheckpointObjects(StorePlace("none")).apply(record, tmp_path)
    for path in (SAMPLES / name).rglob("*"):
        if path.is_file():
            assert (tmp_path / path.relative_to(SAMPLES / name)).read_bytes() == path.read_bytes(), path
    check_log(tmp_path)
