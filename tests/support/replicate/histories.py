"""Random histories of a small table, and a simple, sorted telling of what they come to: the oracle of both SCD types."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

from tests.support.replicate.change_tables import COLUMNS, change

VALUES = [column.name for column in COLUMNS if column.name != "ID"]


def random_history(seed: int, count: int, *, keys: int = 5, deletes: float = 0.2, partial: float = 0.3) -> list[dict[str, Any]]:
    """A legal history: loads, inserts, whole and partial updates, deletions, changes of key; in the order of its sequences."""
    rng = random.Random(seed)
    alive = set(range(keys // 2))
    changes = [change("REFRESH", key, f"r{key}", None, "load") for key in sorted(alive)]
    for at in range(1, count + 1):
        key = rng.randrange(keys)
        row = [rng.choice([None, f"n{at}"]), rng.choice([None, str(at)]), f"note{at}"]
        free = [other for other in range(keys) if other not in alive]
        if key not in alive:
            alive.add(key)
            changes.append(change("INSERT", key, *row, at=at))
        elif rng.random() < deletes:
            alive.remove(key)
            changes.append(change("DELETE", key, at=at))
        elif rng.random() < 0.1 and free:
            new = rng.choice(free)
            alive ^= {key, new}
            changes.append(change("UPDATE", new, *row, at=at, old=key))
        elif rng.random() < partial:
            present = set(rng.sample(VALUES, rng.randint(1, 2)))
            shown = [value if name in present else None for name, value in zip(VALUES, row, strict=True)]
            changes.append(change("UPDATE", key, *shown, at=at, present={"ID", *present}))
        else:
            changes.append(change("UPDATE", key, *row, at=at, old=key))
    return changes


def deliver(changes: list[dict[str, Any]], seed: int, repeats: float = 0.15) -> Iterator[list[dict[str, Any]]]:
    """The changes shuffled, some of them twice, in batches."""
    rng = random.Random(seed)
    delivery = changes + rng.sample(changes, int(len(changes) * repeats))
    rng.shuffle(delivery)
    while delivery:
        size = rng.randint(1, 15)
        yield delivery[:size]
        delivery = delivery[size:]


def tell(changes: Iterable[dict[str, Any]], *, soft: bool = False) -> dict[int, list[tuple[Any, ...]]]:
    """Key -> (from, to, name, total, note, whether it says that the row is gone) of each version, by sorting and replaying."""
    found: dict[int, list[tuple[Any, ...]]] = {}
    for row in sorted(changes, key=lambda row: str(row["_hs_sequence"])):
        at, key, old = row["_hs_sequence"], row["ID"], row["_hs_old.ID"]
        if row["_hs_operation"] == 2:
            _end(found.setdefault(key, []), at, soft=soft)
            continue
        if old is not None and old != key:
            _end(found.setdefault(old, []), at, soft=soft)
        versions = found.setdefault(key, [])
        before: tuple[Any, ...] = (None, None, None)
        if versions and versions[-1][1] is None:
            before = before if versions[-1][5] else versions[-1][2:5]
            versions[-1] = (versions[-1][0], at, *versions[-1][2:])
        mask = row["_hs_columns"]
        bits = 0b1111 if mask is None else mask[0]
        carried = [row[name] if bits >> place + 1 & 1 else before[place] for place, name in enumerate(VALUES)]
        versions.append((at, None, *carried, False))
    return {key: versions for key, versions in found.items() if versions}


def _end(versions: list[tuple[Any, ...]], at: str, *, soft: bool) -> None:
    if versions and versions[-1][1] is None:
        versions[-1] = (versions[-1][0], at, *versions[-1][2:])
        if soft:
            versions.append((at, None, *versions[-1][2:5], True))


def current(told: dict[int, list[tuple[Any, ...]]]) -> dict[int, tuple[Any, ...]]:
    """Key -> values of the rows that are there at the end."""
    return {key: rows[-1][2:5] for key, rows in told.items() if rows[-1][1] is None and not rows[-1][5]}


def amount(text: str) -> Decimal:
    """A value of the column `total`."""
    return Decimal(text).quantize(Decimal("0.01"))
