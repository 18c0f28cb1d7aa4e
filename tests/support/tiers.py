"""What is left to the second tier without a marker: other seeds of a test, most generated examples and repetitions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeVar

import pytest
from hypothesis import settings

__all__ = ["FIRST_TIER", "mark_repeated_seeds", "some_of", "take_fewer_examples"]

FIRST_TIER: Final = "not nightly and not soak"
"""The expression of markers that selects the first tier, as in pyproject.toml."""
_EXAMPLES_DIVISOR: Final = 4
_LEAST_EXAMPLES: Final = 10
T = TypeVar("T")
_running = {"first tier": False}
_SETTINGS: Final = "_hypothesis_internal_use_settings"
"""Where Hypothesis keeps what `@settings` says; it has no public way to change that per run."""


def mark_repeated_seeds(items: list[pytest.Item]) -> None:
    """Mark as nightly all values of a parameter `seed` but the first, for each combination of the other parameters."""
    seen: set[tuple[object, ...]] = set()
    for item in items:
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        if "seed" not in parameters or any(item.get_closest_marker(tier) for tier in ("nightly", "soak")):
            continue
        others = sorted((name, repr(value)) for name, value in parameters.items() if name != "seed")
        family = (item.nodeid.partition("[")[0], *others)
        if family in seen:
            item.add_marker(pytest.mark.nightly)
        seen.add(family)


def take_fewer_examples(items: list[pytest.Item]) -> None:
    """Let tests of generated inputs try a quarter of the examples that they try at night, and ten at least.

    What some_of() returns is of the first tier from then on.
    """
    _running["first tier"] = True
    functions: dict[int, Any] = {id(function): function for item in items if (function := getattr(item, "obj", None)) is not None}
    for function in functions.values():
        given = getattr(function, _SETTINGS, None)
        if isinstance(given, settings):
            most = max(given.max_examples // _EXAMPLES_DIVISOR, min(_LEAST_EXAMPLES, given.max_examples))
            setattr(function, _SETTINGS, settings(given, max_examples=most))


def some_of(values: Iterable[T]) -> list[T]:
    """Return what a test goes through in a loop: all values at night, a quarter of them and two at least in the first tier."""
    found = list(values)
    count = max(len(found) // _EXAMPLES_DIVISOR, 2)
    if not _running["first tier"] or len(found) <= count:
        return found
    return [found[number * (len(found) - 1) // (count - 1)] for number in range(count)]
