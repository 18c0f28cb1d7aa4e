"""Which tests are in the second tier without saying so: those that repeat a test with another seed."""

from __future__ import annotations

import pytest

__all__ = ["mark_repeated_seeds"]


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
