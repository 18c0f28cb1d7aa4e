"""The pause of a group: when it begins, what its trial decides, and what its file keeps."""

from __future__ import annotations

import random

import pytest

from headstream.core.model.pauses import PauseRule
from headstream.core.model.polling import OffsetOwner
from headstream.log.partition.pause_state import PauseState, load_pause, pause_name, store_pause
from headstream.log.system.files import MemoryFiles

OWNER = OffsetOwner.group("billing")
PATH = f"/offsets/{pause_name(OWNER)}"
SECOND = 1_000_000
NOW = 1_700_000_000 * SECOND
RULE = PauseRule(5, 10, 30 * SECOND)


def test_a_group_is_paused_when_enough_of_its_last_attempts_failed() -> None:
    state = PauseState()
    assert not state.record(RULE, 0, 9, NOW)  # too few attempts to judge
    assert state.record(RULE, 0, 1, NOW)
    assert state.left_us(NOW) == 30 * SECOND
    assert state.snapshot() == (NOW + 30 * SECOND, NOW, 10, 10, 1)


def test_successes_push_failures_out_of_the_window() -> None:
    state = PauseState()
    for _ in range(100):
        assert not state.record(RULE, 6, 4, NOW)
    assert state.snapshot()[2:] == (4, 10, 0)
    assert not state.record(RULE, 50, 0, NOW)
    assert state.snapshot()[2:] == (0, 10, 0)
    assert not state.record(RULE, 0, 4, NOW)
    assert state.record(RULE, 0, 1, NOW)


@pytest.mark.parametrize("seed", range(20))
def test_the_window_is_that_of_a_list_of_attempts(seed: int) -> None:
    rng, state, model = random.Random(seed), PauseState(), list[int]()
    rule = PauseRule(rng.randint(1, 40), 40, SECOND)
    for _ in range(200):
        succeeded, failed = rng.choice((0, 0, 1, 3, 50)), rng.choice((0, 0, 1, 2, 60))
        is_paused = state.record(rule, succeeded, failed, NOW)
        model = [*model, *[0] * succeeded, *[1] * failed][-40:]
        assert (state.attempts.bit_count(), state.attempts_count) == (sum(model), len(model))
        assert is_paused == bool(failed and len(model) == 40 and sum(model) >= rule.failures)
        if is_paused:
            state, model = PauseState(), []


def test_the_attempt_on_trial_decides() -> None:
    state = PauseState()
    state.record(RULE, 0, 10, NOW)
    assert not state.record(RULE, 3, 3, NOW + SECOND)  # of messages that were delivered before the pause
    later = NOW + 30 * SECOND
    assert state.is_on_trial(later)
    assert state.record(RULE, 0, 1, later)
    assert state.left_us(later) == 30 * SECOND
    assert (state.begun_us, state.pauses_count) == (NOW, 2)
    assert state.record(RULE, 1, 0, later + 30 * SECOND)
    assert state.snapshot() == (0, 0, 0, 0, 2)


def test_a_pause_never_lasts_longer_than_it_was_given() -> None:
    state = PauseState()
    state.record(RULE, 0, 10, NOW)
    assert state.left_us(NOW - 3600 * SECOND) == 30 * SECOND  # the clock was set back


def test_a_file_keeps_the_state_and_a_damaged_one_says_that_the_group_runs(files: MemoryFiles) -> None:
    state = PauseState()
    state.record(PauseRule(9000, 10_000, SECOND), 700, 9300, NOW)
    store_pause("/offsets", files, OWNER, state)
    assert load_pause("/offsets", files, OWNER) == state
    assert load_pause("/offsets", files, OffsetOwner.group("audit")) == PauseState()
    size_bytes = files.open_write(PATH).size_bytes()
    assert size_bytes < 1400
    for at in range(0, size_bytes, 7):
        store_pause("/offsets", files, OWNER, state)
        file = files.open_write(PATH)
        byte = bytearray(1)
        file.read_into(memoryview(byte), at)
        file.write_at(bytes([byte[0] ^ 1]), at)
        assert load_pause("/offsets", files, OWNER) == PauseState(), at
    for length in (0, 5, 20, size_bytes - 1):
        store_pause("/offsets", files, OWNER, state)
        files.open_write(PATH).truncate(length)
        assert load_pause("/offsets", files, OWNER) == PauseState(), length


def test_a_clock_that_is_set_back_makes_no_pause_longer() -> None:
    state = PauseState()
    state.record(RULE, 0, 10, NOW)
    assert not state.follow_clock(NOW)
    assert state.until_us == NOW + 30 * SECOND
    day_before = NOW - 86_400 * SECOND
    assert state.follow_clock(day_before)
    assert not state.follow_clock(day_before)
    assert state.left_us(day_before) == 30 * SECOND
    assert state.is_on_trial(day_before + 30 * SECOND)
    state = PauseState()
    assert not state.follow_clock(NOW)
    assert not state.until_us
