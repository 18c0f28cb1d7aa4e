"""Bounds: the exact counts, sizes and ages from which a pipeline stops or raises an alarm, and what it says then."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headstream.errors import ReplicateError
from headstream.replicate.parked.bounds import DeadRates, Owner, WaitingBounds
from headstream.replicate.parked.ledger import Ledger, ParkedBatch
from headstream.replicate.settings.config import ReplicateConfig

S = 1_000_000
PARKED_BATCH = ParkedBatch(
    state="parked",
    cause="schema",
    schema_id="A",
    log_topic="replicate/parked",
    from_offset=0,
    until_offset=6,
    size_bytes=600,
    since_us=100 * S,
)


TABLE = ("SHOP", "items")


def exceeds(rates: DeadRates, messages: int, *reasons: str, owner: Owner = TABLE) -> str | None:
    """Add a micro-batch of one table or topic."""
    return rates.find_exceeded({owner: messages}, {owner: Counter(reasons)} if reasons else {}).get(owner)


def test_a_share_of_dead_messages_is_allowed_and_one_more_exceeds() -> None:
    assert exceeds(DeadRates(0.1, 100), 100, *["bad"] * 10) is None
    found = exceeds(DeadRates(0.1, 100), 100, *["bad"] * 6, *["worse"] * 5)
    assert found == "11 of the newest 100 messages cannot be applied, more than 10%: 6 times: bad; 5 times: worse"


def test_the_three_most_frequent_reasons_are_named() -> None:
    found = exceeds(DeadRates(0.1, 1), 10, *"aaaabbbccd")
    assert found is not None
    assert found.endswith("than 10%: 4 times: a; 3 times: b; 2 times: c")


def test_too_few_messages_have_no_share() -> None:
    rates = DeadRates(0.1, 100)
    assert exceeds(rates, 99, *["bad"] * 99) is None
    assert "100 of the newest 100 messages" in (exceeds(rates, 1, "bad") or "")


def test_a_micro_batch_without_dead_messages_never_exceeds() -> None:
    rates = DeadRates(0.1, 100)
    assert exceeds(rates, 99, *["bad"] * 99) is None
    assert exceeds(rates, 1) is None
    assert "100 of the newest 101 messages" in (exceeds(rates, 1, "bad") or "")


def test_a_micro_batch_that_exceeded_does_not_count_when_it_is_read_again() -> None:
    rates = DeadRates(0.1, 100)
    for _ in range(3):
        assert "60 of the newest 100 messages" in (exceeds(rates, 100, *["bad"] * 60) or "")
    assert exceeds(rates, 100, *["bad"] * 10) is None


def test_the_window_has_the_newest_micro_batches_with_enough_messages() -> None:
    rates = DeadRates(0.1, 100)
    assert exceeds(rates, 50, *["bad"] * 5) is None
    assert exceeds(rates, 50) is None
    assert exceeds(rates, 50, *["bad"] * 5) is None  # the first one left the window: 5 of 100
    assert exceeds(rates, 50, *["bad"] * 5) is None  # 10 of 100
    assert "11 of the newest 100 messages" in (exceeds(rates, 50, *["bad"] * 6) or "")
    assert exceeds(rates, 1000) is None
    assert exceeds(rates, 40, *["bad"] * 40) is None  # 40 of 1,040: the big one stays until 100 newer ones are there
    assert "100 of the newest 100 messages" in (exceeds(rates, 100, *["bad"] * 100) or "")


def test_each_table_and_topic_has_a_share_of_its_own() -> None:
    rates = DeadRates(0.1, 100)
    found = rates.find_exceeded({TABLE: 100, "cdc/data": 1000}, {TABLE: Counter(["bad"] * 50), "cdc/data": Counter(["worse"])})
    assert list(found) == [TABLE]
    assert exceeds(rates, 50, *["bad"] * 11, owner="cdc/data") is None, "12 of 1,050"


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    yield ledger
    ledger.close()


@pytest.fixture
def config(tmp_path: Path) -> ReplicateConfig:
    return ReplicateConfig(
        source=f"file://{tmp_path / 'log'}",
        topics=("cdc/data",),
        metadata=("cdc/metadata",),
        tables=tmp_path / "tables",
        checkpoint=tmp_path / "checkpoint",
        max_parked_count=10,
        max_parked_bytes=1000,
        max_parked_age_us=60 * S,
    )


def test_messages_may_wait_up_to_the_very_count_and_size(ledger: Ledger, config: ReplicateConfig) -> None:
    ledger.add([PARKED_BATCH])
    bounds = WaitingBounds(config, ledger)
    bounds.check(4, 400)
    with pytest.raises(ReplicateError, match=r"1,000 bytes\) would wait for schema id A, but the limits are 10"):
        bounds.check(5, 400)
    with pytest.raises(ReplicateError, match=r"10 messages \(1,001 bytes\) would wait") as caught:
        bounds.check(4, 401)
    assert caught.value.advice
    assert "No message is lost" in caught.value.advice


def test_a_micro_batch_that_parks_nothing_passes_also_beyond_the_bounds(ledger: Ledger, config: ReplicateConfig) -> None:
    ledger.add([replace(PARKED_BATCH, until_offset=50, size_bytes=5000)])
    bounds = WaitingBounds(config, ledger)
    bounds.check(0, 0)
    with pytest.raises(ReplicateError):
        bounds.check(1, 1)


def test_check_names_at_most_three_of_the_missing_schemas(ledger: Ledger, config: ReplicateConfig) -> None:
    bounds = WaitingBounds(config, ledger)
    with pytest.raises(ReplicateError, match="would wait for their schemas, but"):
        bounds.check(11, 1)
    ledger.add([replace(PARKED_BATCH, schema_id=name) for name in "ABC"])
    with pytest.raises(ReplicateError, match="would wait for schema id A, B, C, but"):
        bounds.check(11, 1)
    ledger.add([replace(PARKED_BATCH, schema_id=name) for name in "DE"])
    tables = [
        replace(PARKED_BATCH, cause="table", schema_id=None, table_schema="SHOP", table_name=name) for name in ("items", "carts")
    ]
    ledger.add([*tables, replace(PARKED_BATCH, cause="load", schema_id=None, until_offset=7)])
    text = "schema id A, B, C and 2 more and table SHOP.carts, SHOP.items and partitions that are behind 7 rows of full loads"
    with pytest.raises(ReplicateError, match=f"would wait for {text}, but"):
        bounds.check(11, 1)


def test_an_alarm_is_raised_after_the_age_and_logged_once_a_minute(
    ledger: Ledger, config: ReplicateConfig, caplog: pytest.LogCaptureFixture
) -> None:
    bounds = WaitingBounds(config, ledger)
    assert bounds.find_alarm(10_000 * S) is None
    ledger.add([PARKED_BATCH])
    with caplog.at_level(logging.WARNING, "headstream.replicate"):
        assert bounds.find_alarm(160 * S) is None
        alarm = bounds.find_alarm(160 * S + 1)
        assert alarm == "messages have waited for 60 s for schema id A"
        assert bounds.find_alarm(220 * S) == "messages have waited for 120 s for schema id A"
        assert [record.getMessage() for record in caplog.records] == [alarm]
        assert bounds.find_alarm(220 * S + 1)
        assert len(caplog.records) == 2
        ledger.add([], done=[ledger.parked_batches("parked")[0].id])
        assert bounds.find_alarm(221 * S) is None
        ledger.add([PARKED_BATCH])
        assert bounds.find_alarm(222 * S)
        assert len(caplog.records) == 3, "a new alarm is logged at once"
