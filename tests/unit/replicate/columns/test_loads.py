"""The rule of loads.py on its own: where REFRESH rows stand, whatever was read when."""

from __future__ import annotations

import json
from random import Random
from typing import NamedTuple

import pyarrow as pa
import pytest

from headstream.replicate.columns.changes import BOOKKEEPING, OPERATIONS
from headstream.replicate.columns.loads import Load, Loads

REFRESH = OPERATIONS.index("REFRESH")
GAP_US = 3


class Event(NamedTuple):
    """A message of a table: when it was logged, and its change sequence; "" for a REFRESH row."""

    logged_us: int
    sequence: str


def sequence(number: int) -> str:
    return f"{number:035d}"


def batch(*events: Event) -> pa.Table:
    fields = [field for field in BOOKKEEPING if field.name in ("_hs_operation", "_hs_sequence", "_hs_logged_us")]
    rows = [
        {"_hs_operation": 1 if event.sequence else REFRESH, "_hs_sequence": event.sequence, "_hs_logged_us": event.logged_us}
        for event in events
    ]
    return pa.Table.from_pylist(rows, schema=pa.schema(fields))


def places(loads: Loads, *events: Event) -> list[str]:
    placed: list[str] = loads.place(batch(*events), GAP_US, keeps_all=True)["_hs_sequence"].to_pylist()
    return placed


def highest(events: set[Event], before_us: float) -> str:
    return max((event.sequence for event in events if event.logged_us < before_us), default="")


def told_places(events: set[Event], gap_us: int = GAP_US) -> dict[int, str]:
    """Log time of each REFRESH row -> its place, by the words of the rule."""
    found: dict[int, str] = {}
    floor, ended_us = "", -1
    for at_us in sorted({event.logged_us for event in events if not event.sequence}):
        since = highest(events, ended_us)
        newer = any(ended_us <= event.logged_us < at_us - gap_us and event.sequence > since for event in events)
        if at_us - ended_us > gap_us and newer:
            floor = highest(events, at_us)
        found[at_us] = f"{floor}.{at_us:016d}"
        ended_us = at_us
    return found


def draw_partitions(random: Random) -> list[list[Event]]:
    """Partitions with rising log times; changes in about the order of their sequences, some twice."""
    count, ends_us = random.randint(1, 4), random.choice([12, 40, 90])
    parts: list[list[Event]] = [[] for _ in range(count)]
    for number in range(random.randint(0, 25)):
        at_us = 1 + round(number / 25 * ends_us) + random.choice([0, 0, 0, 1, 5])
        for _ in range(random.choice([1, 1, 1, 2])):
            random.choice(parts).append(Event(at_us, sequence(number + 1)))
            at_us += random.randint(0, 10)
    for _ in range(random.randint(0, 4)):
        at_us = random.randint(1, ends_us)
        for _ in range(random.randint(1, 4)):
            random.choice(parts).append(Event(at_us, ""))
            at_us += random.choice([0, 0, 1, GAP_US, GAP_US + 1])
    return [sorted(part) for part in parts]


def read_until(parts: list[list[Event]], read: list[int], *, until_us: int) -> int:
    """The time before which everything is read, as far as the next message of each partition says."""
    return min([until_us, *(part[place].logged_us for part, place in zip(parts, read, strict=True) if place < len(part))])


def read_unevenly(parts: list[list[Event]], random: Random) -> tuple[Loads, dict[int, str]]:
    """Read partitions at unequal speed, with repeats and restarts; the places that rows were given, as early as they could be."""
    loads, given = Loads(), dict[int, str]()
    read = [0] * len(parts)
    waiting: list[Event] = []
    old: list[Event] = []
    while any(place < len(part) for place, part in zip(read, parts, strict=True)):
        taken: list[Event] = []
        for number, part in enumerate(parts):
            size = random.choice([0, 1, 2, 5, len(part)])
            taken += part[read[number] : read[number] + size]
            read[number] = min(len(part), read[number] + size)
        again = random.sample(old, min(len(old), random.choice([0, 0, 3])))
        old += taken
        random.shuffle(taken)
        until_us = max((event.logged_us for event in old), default=0) + 1
        if random.random() < 0.7:
            until_us = read_until(parts, read, until_us=until_us)
        else:  # what is known may lag behind what is read
            until_us = read_until(parts, read, until_us=random.randint(0, until_us))
        for _ in range(random.choice([1, 1, 2])):  # a crash, and once more
            loads.observe(batch(*taken, *again), until_us, GAP_US)
            loads = Loads.from_document(json.loads(json.dumps(loads.to_document())))
        waiting += [event for event in taken if not event.sequence]
        ready = [event for event in waiting if event.logged_us < loads.read_until_us]
        waiting = [event for event in waiting if event.logged_us >= loads.read_until_us]
        given |= {event.logged_us: place for event, place in zip(ready, places(loads, *ready), strict=True)} if ready else {}
    loads.observe(batch(), 10_000, GAP_US)
    given |= {event.logged_us: place for event, place in zip(waiting, places(loads, *waiting), strict=True)} if waiting else {}
    return loads, given


@pytest.mark.parametrize("seed", range(30))
def test_rows_have_the_place_that_the_set_of_messages_gives_them_when_partitions_are_read_unevenly(seed: int) -> None:
    for number in range(20):
        random = Random(f"{seed} {number}")
        parts = draw_partitions(random)
        events = {event for part in parts for event in part}
        ends = []
        for _ in range(3):
            loads, given = read_unevenly(parts, random)
            assert given == told_places(events), f"seed {seed} {number}"
            changes = [event for event in events if event.sequence]
            if changes:
                assert places(loads, *changes) == [event.sequence for event in changes], f"seed {seed} {number}"
            ends.append((loads.loads, loads.highest, loads.vanished))
        assert ends[0] == ends[1] == ends[2], f"seed {seed} {number}"


def test_loads_keep_their_floor_when_a_partition_is_read_far_ahead() -> None:
    loads = Loads()
    ahead = [Event(at_us, sequence(at_us)) for at_us in range(1, 100)]
    loads.observe(batch(*ahead), 0, GAP_US)
    loads.observe(batch(Event(50, "")), 1000, GAP_US)
    assert places(loads, Event(50, "")) == [f"{sequence(49)}.{50:016d}"]


def test_a_late_change_stays_below_the_first_load_that_began_after_it_was_logged() -> None:
    loads = Loads()
    loads.observe(
        batch(Event(1, sequence(5)), Event(10, ""), Event(11, sequence(20)), Event(20, ""), Event(30, sequence(40))), 99, GAP_US
    )
    assert [load.floor for load in loads.loads] == [sequence(5), sequence(20)]
    late = [Event(9, sequence(7)), Event(9, sequence(6)), Event(15, sequence(25)), Event(9, sequence(4)), Event(25, sequence(30))]
    loads.observe(batch(*late), 99, GAP_US)
    first, second = sequence(5), sequence(20)
    told = [f"{first},{sequence(7)}", f"{first},{sequence(6)}", f"{second},{sequence(25)}", sequence(4), sequence(30)]
    assert places(loads, *late) == told
    assert sorted([*told[:2], first, f"{first}.{10:016d}", sequence(6)])[0] == first, "above the floor"
    assert max(told[:2]) < f"{first}.{10:016d}", "and below the rows of the load"


def test_a_late_change_stays_below_a_first_load_that_it_would_have_given_a_floor() -> None:
    loads = Loads()
    loads.observe(batch(Event(10, ""), Event(20, sequence(9))), 99, GAP_US)
    late = [Event(2, sequence(1)), Event(10 - GAP_US, sequence(2))]
    loads.observe(batch(*late), 99, GAP_US)
    first, second = places(loads, *late)
    assert first < places(loads, Event(10, ""))[0] < second == sequence(2)


def test_rows_that_come_behind_everything_make_the_load_that_they_are() -> None:
    loads = Loads()
    loads.observe(batch(Event(1, ""), Event(5, sequence(5)), Event(50, sequence(9))), 99, GAP_US)
    loads.observe(batch(Event(31, "")), 99, GAP_US)
    loads.observe(batch(Event(30, "")), 99, GAP_US)
    assert places(loads, Event(1, ""), Event(30, ""), Event(31, "")) == [
        f".{1:016d}", f"{sequence(5)}.{30:016d}", f"{sequence(5)}.{31:016d}"
    ]  # fmt: skip
    assert loads.loads == [Load(1, 1, ""), Load(30, 31, sequence(5))]


def test_a_load_begun_by_hand_twice_with_no_change_between_replaces_the_one_before() -> None:
    loads = Loads()
    loads.observe(batch(Event(1, sequence(1)), Event(10, "")), 20, GAP_US)
    for at_us in (30, 40):
        assert loads.begin(at_us)
        assert loads.begin(at_us), "asked for again, it changes nothing"
        loads.observe(batch(Event(at_us + 1, "")), at_us + 5, GAP_US)
    placed = places(loads, Event(10, ""), Event(31, ""), Event(41, ""))
    assert placed == sorted(placed)
    assert max(placed) < sequence(2)
    assert loads.vanished is None, "no change says that it is over"
    loads.end()
    assert loads.vanished is not None
    assert placed[1] < loads.vanished < placed[2]
    assert not loads.begin(41), "rows logged since have their place"


def test_a_load_without_rows_is_over_when_it_is_ended_by_hand() -> None:
    loads = Loads()
    loads.observe(batch(Event(1, ""), Event(2, sequence(1))), 10, GAP_US)
    loads.begin(20)
    loads.observe(batch(Event(30, sequence(2))), 40, GAP_US)
    assert loads.vanished is None
    loads.end()
    assert loads.vanished == f"{sequence(1)}."
    loads.mark_vanished_removed()
    assert loads.vanished is None
    assert places(loads, Event(1, ""))[0] < sequence(1)
    assert loads.vanished is not None, "a row came that is to be removed again"
    assert loads.place(batch(Event(1, ""))).num_rows == 1
    loads.mark_vanished_removed()
    assert loads.place(batch(Event(1, ""), Event(30, sequence(2))))["_hs_sequence"].to_pylist() == [sequence(2)]


def test_a_truncation_removes_the_rows_up_to_it_whatever_was_logged_before_it() -> None:
    loads = Loads()
    loads.truncate("5", 1_000)
    assert loads.vanished == "5."
    number = loads.end_number
    loads.mark_vanished_removed()
    loads.truncate("5", 1_000)
    assert loads.end_number == number, "a repeat changes nothing"
    assert not loads.vanished
    loads.truncate("7", 1_000)
    again = Loads.from_document(json.loads(json.dumps(loads.to_document())))
    assert (again.vanished, again.end_number > number) == ("7.", True)
    changes = batch(Event(900, "6"), Event(950, "8"))
    again.mark_vanished_removed()
    again.observe(changes, 2_000)
    assert again.place(changes)["_hs_sequence"].to_pylist() == ["8"]


def test_a_load_is_over_at_its_marked_last_row_once_everything_before_is_read() -> None:
    loads, second = Loads(), 10_000_000
    loads.mark_first(1)
    loads.observe(batch(Event(1, ""), Event(2, ""), Event(3, sequence(1))), 10, GAP_US)
    loads.mark_first(second)
    loads.mark_last(second + 5)
    loads.observe(batch(Event(second, ""), Event(second + 5, "")), second + 5, GAP_US)
    assert loads.vanished is None, "rows before the last one can be unread"
    loads.observe(batch(Event(second + 5, "")), second + 6, GAP_US)
    placed = places(loads, Event(2, ""), Event(3, sequence(1)), Event(second, ""), Event(second + 5, ""))
    assert loads.vanished is not None
    assert placed[0] < placed[1] < loads.vanished < placed[2] < placed[3]
    assert Loads.from_document(json.loads(json.dumps(loads.to_document()))) == loads


def test_a_last_row_without_a_first_one_is_a_load_of_its_own() -> None:
    loads, second = Loads(), 10_000_000
    for at_us in (5, second):
        loads.mark_last(at_us)
        loads.observe(batch(Event(at_us, "")), at_us + 1, GAP_US)
        loads.mark_last(at_us)
    placed = places(loads, Event(5, ""), Event(second, ""))
    assert loads.vanished is not None
    assert placed[0] < loads.vanished < placed[1]


def test_marked_rows_in_other_partitions_make_one_load_whatever_their_order() -> None:
    loads, at_us = Loads(), 10_000_000
    loads.observe(batch(Event(1, ""), Event(2, sequence(1))), 10, GAP_US)
    loads.mark_last(at_us)
    loads.mark_first(at_us + 2)
    loads.observe(batch(Event(at_us - 1, ""), Event(at_us, ""), Event(at_us + 2, "")), at_us + 9, GAP_US)
    placed = places(loads, Event(1, ""), *(Event(us, "") for us in (at_us - 1, at_us, at_us + 2)))
    assert loads.vanished is not None
    assert placed[0] < loads.vanished < min(placed[1:])
    assert len(loads.loads) == 2


MARKED_GAP_US = 4_000_000


def draw_snapshots(random: Random) -> tuple[list[list[int]], list[tuple[int, str, str]]]:
    """Return the rows of some snapshots, and all messages in the order of their log times: rows, changes, marks of rows.

    Other partitions have rows of a snapshot up to a second before its first row and after its last one.
    """
    at_us, snapshots, messages = 100_000_000, list[list[int]](), list[tuple[int, str, str]]()
    for number in range(random.randint(1, 4)):
        skew_us = random.choice([0, 4, 1_000_000])
        rows = sorted({at_us + random.randrange(random.choice([10, 30_000_000])) for _ in range(random.choice([1, 1, 2, 5]))})
        first_us, last_us = rows[0] + random.randint(0, skew_us), max(at_us, rows[-1] - random.randint(0, skew_us))
        if len(rows) > 1:
            rows = [
                us for us in {*rows, first_us, last_us} if abs(us - first_us) <= 1_000_000 or first_us < us < last_us + 1_000_000
            ]
            messages.append((first_us, "first", ""))
        else:
            last_us = rows[0]
        snapshots.append(sorted(rows))
        messages += [(last_us, "last", ""), *((us, "row", "") for us in rows)]
        at_us = max(first_us, last_us, *rows) + random.choice([5_000_000, 60_000_000])
        messages += [(at_us, "change", sequence(10 * number + each)) for each in range(random.choice([0, 0, 1, 3]))]
        at_us += random.choice([5_000_000, 60_000_000])
    return snapshots, sorted(messages)


@pytest.mark.parametrize("seed", range(8))
def test_each_marked_snapshot_is_one_load_whatever_was_read_when_and_how_often(seed: int) -> None:
    for number in range(150):
        random, loads = Random(f"{seed}/{number}"), Loads()
        snapshots, messages = draw_snapshots(random)
        ends = sorted(random.choice(messages)[0] + random.randint(0, 1) for _ in range(random.randint(0, 6)))
        begin_us = 0
        for end_us in [*ends, messages[-1][0] + 100_000_000]:
            for from_us in [begin_us, *random.choices([(), (begin_us,), (0,)], (4, 1, 1))[0]]:  # a batch can be repeated
                batch_of = [message for message in messages if from_us <= message[0] < end_us]
                for at_us, kind, _ in batch_of:
                    if kind in ("first", "last"):
                        (loads.mark_first if kind == "first" else loads.mark_last)(at_us)
                events = [Event(at_us, text) for at_us, kind, text in batch_of if kind in ("row", "change")]
                loads.observe(batch(*events), end_us, MARKED_GAP_US)
            begin_us = end_us
        floors = [{place.partition(".")[0] for place in places(loads, *(Event(us, "") for us in rows))} for rows in snapshots]
        assert [len(each) for each in floors] == [1] * len(snapshots), f"{seed}/{number}: a snapshot is in two loads"
        assert len(set().union(*floors)) == len(snapshots), f"{seed}/{number}: two snapshots are in one load"
