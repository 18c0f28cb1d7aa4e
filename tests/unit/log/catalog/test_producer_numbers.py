"""Unit tests of headstream.log.catalog.producer_numbers."""

from __future__ import annotations

from headstream.log.catalog.catalog import Catalog
from headstream.log.catalog.producer_numbers import ProducerNumbers
from tests.unit.log.partition.test_producer_states import NOW


def test_numbers_are_never_given_again() -> None:
    catalog, now_us = Catalog(None, is_writer=True), [NOW]
    numbers = ProducerNumbers(lambda: catalog, lambda: now_us[0])
    given = [numbers.take() for _ in range(2500)]
    now_us[0] = 0  # the clock goes back, and another process goes on
    given += [ProducerNumbers(lambda: catalog, lambda: now_us[0]).take() for _ in range(3)]
    now_us[0] = NOW + 3600 * 1_000_000
    copy = Catalog(None, is_writer=True)  # an older copy is put back
    given.append(ProducerNumbers(lambda: copy, lambda: now_us[0]).take())
    assert sorted(set(given)) == given
    catalog.close()
    copy.close()
