"""Unit tests of headstream.broker.cached_value."""

from __future__ import annotations

from headstream.broker.cached_value import CachedValue


class Clock:
    """A clock that is moved by hand."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_kept_value_is_computed_once_when_many_threads_ask_for_a_costly_value() -> None:
    clock, made = Clock(), list[int]()
    kept = CachedValue[int](clock)

    def make() -> int:
        clock.now_s += 0.5
        made.append(1)
        return len(made)

    assert [kept.get(make) for _ in range(100)] == [1] * 100
    clock.now_s += 4.9
    assert kept.get(make) == 1
    clock.now_s += 0.2
    assert kept.get(make) == 2


def test_kept_value_is_made_each_time_when_it_is_cheap() -> None:
    kept, values = CachedValue[int](Clock()), iter(range(1, 10))
    assert [kept.get(lambda: next(values)) for _ in range(3)] == [1, 2, 3]


def test_kept_value_is_kept_for_its_time_when_it_is_cheap() -> None:
    clock, values = Clock(), iter(range(1, 10))
    kept = CachedValue[int](clock, kept_s=0.2)
    assert [kept.get(lambda: next(values)) for _ in range(3)] == [1, 1, 1]
    clock.now_s += 0.25
    assert kept.get(lambda: next(values)) == 2
