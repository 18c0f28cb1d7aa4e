"""The simulated database: the same for the same seed, complete in types and in what can happen to a row."""

from __future__ import annotations

import doctest

import pytest

from headstream.errors import InvalidInputError, NotFoundError
from headstream.testing import SHOP_TABLES, CaptureOptions, SourceDatabase, digest_rows, source_database


def test_source_database_gives_the_same_messages_when_the_seed_is_the_same() -> None:
    options = CaptureOptions(partial_images=True)
    first, again, other = (SourceDatabase(seed, rows=10, transactions=30) for seed in (1, 1, 2))
    messages = list(first.capture(options))
    assert messages == list(first.capture(options)) == list(again.capture(options))
    assert messages != list(other.capture(options))
    assert first.digest("LAB", "readings") == again.digest("LAB", "readings") != other.digest("LAB", "readings")
    assert {m.schema_id for m in messages}.isdisjoint(m.schema_id for m in other.capture(options))


def test_source_database_scales_by_its_arguments() -> None:
    empty = SourceDatabase(rows=0, transactions=0)
    assert empty.changes == ()
    assert empty.final_state("SHOP", "orders") == {}
    assert [message.role for message in empty.capture()] == ["metadata"] * len(SHOP_TABLES)
    loaded = SourceDatabase(rows=4, transactions=0)
    assert len(loaded.changes) == 4 * len(SHOP_TABLES)
    assert len(loaded.versions("SHOP", "customers")) == 1
    busy = SourceDatabase(rows=0, transactions=3000, largest_transaction=1, tables=SHOP_TABLES[:2])
    assert 3000 <= len(busy.changes) <= 3200
    assert {change.event_counter for change in busy.changes} == {1, 2}


def test_source_database_digest_is_that_of_its_rows() -> None:
    source = SourceDatabase(4, rows=20, transactions=40)
    rows = list(source.final_state("LAB", "samples").values())
    assert digest_rows(reversed(rows), ["id"]) == source.digest("LAB", "samples")
    rows[3] = {**rows[3], "tiny": 1 if rows[3]["tiny"] != 1 else 2}
    assert digest_rows(rows, ["id"]) != source.digest("LAB", "samples")


def test_source_database_refuses_what_it_cannot_be() -> None:
    with pytest.raises(InvalidInputError):
        SourceDatabase(rows=-1)
    with pytest.raises(InvalidInputError):
        SourceDatabase(largest_transaction=0)
    with pytest.raises(InvalidInputError):
        SourceDatabase(tables=[])
    with pytest.raises(InvalidInputError):
        SourceDatabase(tables=[SHOP_TABLES[0], SHOP_TABLES[0]])
    with pytest.raises(NotFoundError, match=r"SHOP\.nothing.*SHOP\.orders"):
        SourceDatabase().final_state("SHOP", "nothing")


def test_source_database_example_runs() -> None:
    result = doctest.testmod(source_database)
    assert result.attempted >= 5
    assert result.failed == 0
