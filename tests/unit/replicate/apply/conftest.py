"""The tests of changes that are applied run with each strategy of merges."""

from __future__ import annotations

import pytest

from tests.support.replicate.plain_engine import merge_strategy, parametrize_strategies

__all__ = ["merge_strategy"]

_BOTH = ("type1", "type2")
"""Directories whose tests run with rewritten files and with deletion vectors every time."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    parametrize_strategies(metafunc, ["rewrite", "auto"] if metafunc.definition.path.parent.name in _BOTH else ["rewrite"])
