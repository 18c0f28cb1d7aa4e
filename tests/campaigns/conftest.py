"""The histories of tables run with each strategy of merges."""

from __future__ import annotations

import pytest

from tests.support.replicate.plain_engine import merge_strategy, parametrize_strategies

__all__ = ["merge_strategy"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.definition.path.name.startswith("test_replicate_"):
        parametrize_strategies(metafunc, ["auto" if "delivery" in metafunc.definition.path.name else "rewrite"])
