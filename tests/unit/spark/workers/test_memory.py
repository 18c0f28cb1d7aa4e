"""A worker's imports are spared from garbage collections, once, and only in a worker."""

from __future__ import annotations

import gc
import importlib.util
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from headstream.spark.workers import memory as worker_memory
from headstream.spark.workers.memory import freeze_objects


@pytest.fixture(autouse=True)
def unfrozen(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(worker_memory._FrozenObjects, "modules_count", 0)
    gc.unfreeze()
    yield
    gc.unfreeze()


def run_as(name: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    main = ModuleType("__main__")
    main.__spec__ = None if name is None else importlib.util.spec_from_loader(name, None)
    monkeypatch.setitem(sys.modules, "__main__", main)


@pytest.mark.parametrize("name", ["pyspark.daemon", "headstream.spark.workers.daemon"])
def test_imports_are_spared_in_a_worker_and_again_when_there_are_many_more(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run_as(name, monkeypatch)
    freeze_objects()
    spared = gc.get_freeze_count()
    assert spared > 1000
    kept = [[] for _ in range(100)]  # type: list[list[int]]
    freeze_objects()
    assert gc.get_freeze_count() <= spared, "what a task makes is spared too"
    for number in range(100):
        monkeypatch.setitem(sys.modules, f"imported_later_{number}", ModuleType("later"))
    freeze_objects()
    assert gc.get_freeze_count() > spared + len(kept)


@pytest.mark.parametrize("name", [None, "pytest.__main__"])
def test_imports_are_left_alone_in_a_process_of_the_users(name: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    run_as(name, monkeypatch)
    freeze_objects()
    assert gc.get_freeze_count() == 0
