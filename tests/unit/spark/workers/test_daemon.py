"""Unit tests of headstream.spark.workers.daemon."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from headstream.spark.workers.endings import exit_quietly


@pytest.mark.parametrize("name", [None, "pytest.__main__", "headstream.spark.workers.daemon"])
def test_processes_of_the_users_are_left_alone(name: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    work, hook = object(), sys.excepthook
    spec = None if name is None else SimpleNamespace(name=name)
    main: Any = SimpleNamespace(__spec__=spec, worker=work)
    monkeypatch.setitem(sys.modules, "__main__", main)
    exit_quietly()
    assert (main.worker, sys.excepthook) == (work, hook)
