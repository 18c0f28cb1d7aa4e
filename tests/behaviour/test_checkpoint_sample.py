"""A checkpoint of ledger version 3, written when that was the newest: later pipelines open it with all that it holds."""

from __future__ import annotations

import importlib.util
import shutil
from contextlib import closing
from pathlib import Path
from types import ModuleType

import pytest

import headstream as hs
from headstream.log.checks.verification import Verification
from headstream.log.system.files import OsFiles
from headstream.replicate.parked.ledger import Ledger
from headstream.replicate.tables.table_memory import TableMemory

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "tests/samples/checkpoint-3"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SAMPLE, tmp_path / "checkpoint"))


@pytest.fixture(scope="module")
def written() -> ModuleType:
    """Return tools/make_checkpoint_sample.py, whose constants are what the sample holds."""
    spec = importlib.util.spec_from_file_location("make_checkpoint_sample", ROOT / "tools/make_checkpoint_sample.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check_log(checkpoint: Path, written: ModuleType) -> None:
    with hs.connect((checkpoint / "log").as_uri()) as log:
        for topic, payloads in written.PAYLOADS.items():
            messages = log.poll(topic, 1, start=0, count=100)
            assert [message.payload for message in messages] == payloads
            assert all(message.verify() for message in messages)
    assert list(Verification(str(checkpoint / "log"), OsFiles()).run()) == []


def test_a_checkpoint_of_ledger_version_3_is_read_whole(checkpoint: Path, written: ModuleType) -> None:
    with closing(Ledger(checkpoint / "ledger.sqlite", read_only=True)) as ledger:
        assert tuple(sorted(ledger.parcels("parked", "dead"), key=lambda parcel: parcel.id)) == written.PARCELS
        assert ledger.mark("sample") == "3"
    with closing(TableMemory(checkpoint / "tables.sqlite")) as memory:
        assert list(memory.names()) == [written.TABLE]
        assert memory.find(written.TABLE) == written.STATE
    check_log(checkpoint, written)


def test_a_checkpoint_of_ledger_version_3_is_continued(checkpoint: Path, written: ModuleType) -> None:
    with closing(Ledger(checkpoint / "ledger.sqlite")) as ledger:
        number = ledger.begin_release(["A"], (), 10)
        assert number is not None
        released = ledger.released(number)
        assert sorted(parcel.id for parcel in released) == [1, 3]  # also of a transaction that is not open
        ledger.finish_release(number, released)
    with closing(Ledger(checkpoint / "ledger.sqlite")) as ledger:
        assert ledger.unfinished_release() is None
        assert len(ledger.parcels("dead")) == 1
    check_log(checkpoint, written)
