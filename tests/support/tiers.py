"""What is left to the second tier without a marker: other seeds of a test, most generated examples and repetitions.

Campaigns are divided among nights.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable
from types import ModuleType
from typing import Any, Final, TypeVar

import pytest
from hypothesis import settings

FIRST_TIER: Final = "not nightly and not soak"
"""The expression of markers that selects the first tier, as in pyproject.toml."""
_EXAMPLES_DIVISOR: Final = 6
_LEAST_EXAMPLES: Final = 10
_NIGHTS: Final = 7
"""In a week, each campaign runs with all its parameters."""
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


def mark_repeated_values(items: list[pytest.Item]) -> None:
    """Mark as nightly the combinations of parameters that have no new value of any parameter.

    Each value of each parameter stays in the first tier once, with some value of the others. All combinations stay of a test
    that is marked with `every_combination`, and the ways in which a kernel runs each have all values.
    """
    families: dict[tuple[object, ...], list[tuple[pytest.Item, set[tuple[object, ...]]]]] = {}
    for item in items:
        call = getattr(item, "callspec", None)
        if call is None or any(item.get_closest_marker(name) for name in ("nightly", "soak", "every_combination")):
            continue
        values = {name: id(value) for name, value in call.params.items()}
        together = [_names(mark.args[0]) for mark in item.iter_markers("parametrize")]
        apart = [(name,) for name in values if not any(name in names for names in together)]
        kernels = tuple(values[name] for name, value in call.params.items() if isinstance(value, ModuleType))
        found = {(names, *(values[name] for name in names)) for names in (*together, *apart)}
        families.setdefault((item.nodeid.partition("[")[0], *kernels), []).append((item, found))
    for family in families.values():
        missing = {value for _, values in family for value in values}
        left = list(family)
        while missing:
            best = max(left, key=lambda one: len(one[1] & missing))  # the first of the best
            left.remove(best)
            missing -= best[1]
        for item, _ in left:
            item.add_marker(pytest.mark.nightly)


def _names(given: str | Iterable[str]) -> tuple[str, ...]:
    """Return the names of the parameters that a mark `parametrize` gives together."""
    return tuple(name.strip() for name in given.split(",")) if isinstance(given, str) else tuple(given)


def leave_for_other_nights(items: list[pytest.Item], night: int) -> list[pytest.Item]:
    """Remove the campaigns of other nights from the tests, and return them.

    Each night runs a seventh of a campaign's parameters. A campaign without parameters runs one night in seven.

    Args:
        items: The collected tests.
        night: A number that is one larger the next night.
    """
    counts: Counter[str] = Counter()
    kept, left = list[pytest.Item](), list[pytest.Item]()
    for item in items:
        function = item.nodeid.partition("[")[0]
        is_campaign = item.get_closest_marker("soak") is not None
        is_left = is_campaign and (zlib.crc32(function.encode()) + counts[function] + night) % _NIGHTS != 0
        counts[function] += is_campaign
        (left if is_left else kept).append(item)
    items[:] = kept
    return left


def take_fewer_examples(items: list[pytest.Item]) -> None:
    """Let tests of generated inputs try a sixth of the examples that they try at night, and ten at least.

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
    """Return what a test goes through in a loop: all values at night, a sixth of them and two at least in the first tier."""
    found = list(values)
    count = max(len(found) // _EXAMPLES_DIVISOR, 2)
    if not _running["first tier"] or len(found) <= count:
        return found
    return [found[number * (len(found) - 1) // (count - 1)] for number in range(count)]
