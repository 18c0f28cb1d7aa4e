"""The histories of tables run with each strategy of merges."""

from __future__ import annotations

import pytest

from tests.support.replicate.plain_engine import merge_strategy, parametrize_strategies

__all__ = ["merge_strategy"]

_WITH_VECTORS = ("test_replicate_delivery.py", "test_replicate_folds.py")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.definition.path.name.startswith("test_replicate_"):
        parametrize_strategies(metafunc, ["auto" if metafunc.definition.path.name in _WITH_VECTORS else "rewrite"])
