"""The file of a group's unfinished messages: what was stored is read again, after interruptions and by another process too."""

from __future__ import annotations

import random
import struct

import pytest

from headstream.core.codec.batch.stored.scan import crc32c
from headstream.core.model.deliveries import DeliveryChange, DeliveryStep
from headstream.core.model.polling import OffsetOwner
from headstream.log.partition import delivery_journal
from headstream.log.partition.delivery_journal import DeliveryJournal, Touched, journal_name, remove_journals
from headstream.log.partition.delivery_state import DeliveryState
from headstream.log.system.files import MemoryFiles

OWNER = OffsetOwner.group("billing")
PATH = f"/offsets/{journal_name(OWNER, 2)}"
FAILED, DONE, PENDING, BEGUN = DeliveryStep.FAILED, DeliveryStep.DONE, DeliveryStep.PENDING, DeliveryStep.BEGUN


def journal_of(files: MemoryFiles, generation: int = 5) -> DeliveryJournal:
    return DeliveryJournal("/offsets", files, OWNER, 2, generation)


def change(step: DeliveryStep, offset: int, until: int | None = None, failures: int = 0) -> DeliveryChange:
    return DeliveryChange(step, offset, offset + 1 if until is None else until, failures, 500, "", f"error {failures}")


def load(journal: DeliveryJournal, committed: int, committed_us: int = 1) -> DeliveryState:
    return journal.load((committed, committed_us))


def settle(journal: DeliveryJournal, committed: int, begun_until: int, *changes: DeliveryChange, committed_us: int = 1) -> None:
    """Apply and store steps, as the broker does."""
    state = journal.load((committed, committed_us), is_writer=True)
    state.apply(changes, 1000)
    state.begun_until = max(state.begun_until, begun_until)
    ranges = {DONE: list[tuple[int, int]](), PENDING: list[tuple[int, int]]()}
    for each in changes:
        if each.step in ranges:
            ranges[each.step].append((each.from_offset, each.until_offset))
    failing = tuple(each.from_offset for each in changes if each.step not in ranges)
    journal.store(Touched(tuple(ranges[PENDING]), tuple(ranges[DONE]), failing), committed, 1000)


def shown(state: DeliveryState) -> tuple[int, list[tuple[int, int]], dict[int, int]]:
    return state.begun_until, list(state.pending), {offset: each.failures for offset, each in sorted(state.failing.items())}


def test_a_journal_is_what_it_was_for_another_process(files: MemoryFiles) -> None:
    one, two = journal_of(files), journal_of(files)
    settle(one, 10, 20, change(FAILED, 10, failures=1), change(PENDING, 12, 15), change(BEGUN, 17))
    assert shown(load(two, 10)) == shown(one.state) == (20, [(12, 15)], {10: 1, 17: 0})
    settle(two, 10, 25, change(DONE, 12, 13), change(FAILED, 10, failures=2), change(DONE, 17))
    state = load(one, 10)
    assert shown(state) == (25, [(13, 15)], {10: 2})
    failing = state.failing[10]
    assert (failing.first_error, failing.last_error, failing.failed_us) == ("error 1", "error 2", 1000)
    assert state.first_open() == 10
    assert shown(load(one, 14)) == (25, [(14, 15)], {})  # what is before the committed offset is done


@pytest.mark.parametrize("cut", [1, 7, 8, 20, -1])
def test_a_record_that_was_interrupted_never_happened_and_is_overwritten(files: MemoryFiles, cut: int) -> None:
    journal = journal_of(files)
    settle(journal, 0, 1, change(FAILED, 0, failures=1))
    file = files.open_write(PATH)
    whole = file.size_bytes()
    settle(journal, 0, 3, change(FAILED, 0, failures=2), change(PENDING, 1, 2))
    file.truncate(file.size_bytes() + cut if cut < 0 else whole + cut)
    again = journal_of(files)
    assert shown(load(again, 0)) == (1, [], {0: 1})
    settle(again, 0, 2, change(DONE, 0))
    assert shown(load(journal_of(files), 0)) == (2, [], {})


def test_every_damaged_byte_leaves_the_records_before_it(files: MemoryFiles) -> None:
    journal = journal_of(files)
    states = [shown(DeliveryState())]
    for number in range(3):
        settle(journal, 0, number + 1, change(FAILED, number, failures=1))
        states.append(shown(journal.state))
    file = files.open_write(PATH)
    for position in range(file.size_bytes()):
        content = memoryview(bytearray(1))
        file.read_into(content, position)
        file.write_at(bytes([content[0] ^ 0xFF]), position)
        assert shown(load(journal_of(files), 0)) in states
        file.write_at(bytes(content), position)
    assert shown(load(journal_of(files), 0)) == states[-1]


def test_a_group_that_is_set_back_begins_anew(files: MemoryFiles) -> None:
    journal = journal_of(files)
    settle(journal, 10, 20, change(FAILED, 10, failures=1))
    assert shown(load(journal_of(files), 9)) == (20, [], {10: 1})  # committed before: what a power cut leaves
    assert shown(load(journal_of(files), 9, 2000)) == (9, [], {})
    settle(journal, 9, 10, committed_us=2000)
    assert not files.exists(PATH)
    assert shown(load(journal_of(files), 12, 2000)) == (12, [], {})


def test_load_gives_nothing_of_a_journal_when_its_partition_was_purged_or_its_journals_removed(files: MemoryFiles) -> None:
    settle(journal_of(files), 10, 20, change(FAILED, 10, failures=1))
    assert shown(load(journal_of(files, generation=6), 0)) == (0, [], {})
    remove_journals("/offsets", files, OWNER, [1, 2])
    assert not files.exists(PATH)


def test_a_file_that_has_grown_is_replaced(files: MemoryFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery_journal, "_REWRITE_BYTES", 500)
    journal, sizes = journal_of(files), set[int]()
    settle(journal, 0, 1, change(FAILED, 0, failures=1))
    for begun_until in range(2, 200):
        settle(journal, 0, begun_until)
        sizes.add(files.open_write(PATH).size_bytes())
    assert max(sizes) < 1200
    assert shown(load(journal_of(files), 0)) == (199, [], {0: 1})


def test_journal_has_no_file_when_no_message_is_unfinished(files: MemoryFiles) -> None:
    settle(journal_of(files), 0, 5, change(DONE, 0, 5))
    assert not files.exists(PATH)


@pytest.mark.parametrize("seed", range(20))
def test_any_steps_are_the_same_when_they_are_read_again(files: MemoryFiles, seed: int) -> None:
    rng, journal = random.Random(seed), journal_of(files)
    begun_until = committed = 0
    for _ in range(100):
        begun_until += rng.randint(0, 3)
        steps = []
        for _ in range(rng.randint(0, 3)):
            offset = rng.randint(committed, begun_until + 1)
            step = rng.choice([FAILED, DONE, PENDING, BEGUN, DeliveryStep.RELEASED])
            known = journal.state.failing.get(offset)
            failures = (known.failures if known else 0) + 1 if step is FAILED else 0
            if step is not PENDING or known is None:
                steps.append(change(step, offset, failures=failures))
        settle(journal, committed, begun_until, *{each.from_offset: each for each in steps}.values())
        begun_until = journal.state.begun_until
        committed = max(committed, min(journal.state.first_open(), begun_until))
        assert shown(load(journal_of(files), committed)) == shown(load(journal, committed))


def test_a_journal_of_version_2_is_read_and_goes_on_as_one_of_version_3(files: MemoryFiles) -> None:
    body = struct.pack("<QQQQI", 10, 1000, 20, 0, 2) + struct.pack("<BQQ", 1, 12, 15)
    body += struct.pack("<BQIBQQQ", 3, 10, 2, 0, 900, 800, 500) + b"\x01a" + b"\x01b" + b"\0" + struct.pack("<IIQ", 0, 0, 0)
    head = struct.pack("<8sIB3xQ", b"HSDELIVR", 2, len("billing"), 5) + b"billing"
    content = head.ljust(512, b"\0") + struct.pack("<II", len(body), crc32c(body, 512)) + body
    files.replace(PATH, content)
    journal = journal_of(files)
    assert shown(load(journal, 10)) == (20, [(12, 15)], {10: 2})
    settle(journal, 10, 20, change(FAILED, 10, failures=3))
    again = load(journal_of(files), 10)
    assert shown(again) == (20, [(12, 15)], {10: 3})
    assert [attempt.number for attempt in again.failing[10].attempts] == [3]
    assert again.failing[10].first_error == "a"


def test_a_journal_that_another_process_has_replaced_by_one_of_the_same_size_is_read_again(files: MemoryFiles) -> None:
    one, two = journal_of(files), journal_of(files)
    settle(one, 10, 20, change(FAILED, 10, failures=1))
    size_bytes = files.open_write(PATH).size_bytes()
    two.forget()
    state = load(two, 10)
    state.apply([change(FAILED, 10, failures=1)], 2000)
    state.begun_until = 12
    two.store(Touched(failing=(10,)), 10, 2000)
    assert files.open_write(PATH).size_bytes() == size_bytes
    assert shown(load(one, 10)) == (12, [], {10: 1})
