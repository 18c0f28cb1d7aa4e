"""Dropping messages whose ids were there before, against a list of ids."""

from __future__ import annotations

import random
from types import ModuleType

import pytest

from headstream.errors import DecodeError, InvalidInputError
from tests.support import kernels
from tests.support.messages.batches import sent, stored

SEED = b"12345678"
repeats = kernels.fixture("batch.stored.repeats")


@pytest.mark.parametrize("capacity", [1, 2, 5, 64])
def test_repeats_go_and_all_else_stays_whatever_the_capacity(repeats: ModuleType, capacity: int) -> None:
    rng = random.Random(capacity)
    window = repeats.new_id_window(capacity, SEED)
    noted: list[int] = []
    for _ in range(300):
        ids = [rng.choice([0, rng.randint(1, capacity * 2 + 3)]) for _ in range(rng.randint(1, 6))]
        newest, new = noted[-capacity:], []
        for each in ids:  # as if each were sent alone: what is kept takes the place of the oldest
            if each == 0 or each not in newest[-capacity:]:
                new.append(each)
                newest.append(each)
        batch, expected = (b"".join(sent(b"p%d" % each, b"", each) for each in some) for some in (ids, new))
        found = repeats.drop_repeats(batch, window)
        assert (batch if found is None else bytes(found)) == expected
        given = [each or rng.getrandbits(100) + 1000 for each in new]
        repeats.note_ids(b"".join(stored(b"z", message_id=each) for each in given), window)
        noted += given


def test_an_id_that_is_noted_twice_is_remembered_from_the_second_time_on(repeats: ModuleType) -> None:
    window = repeats.new_id_window(2, SEED)
    for number in (7, 7, 8):  # the first 7 goes, the second is still there
        repeats.note_ids(stored(b"z", message_id=number), window)
    assert repeats.drop_repeats(sent(b"x", b"", 7), window) == b""
    repeats.note_ids(stored(b"z", message_id=9), window)
    assert repeats.drop_repeats(sent(b"x", b"", 7), window) is None


def test_repeats_refuse_truncated_batches_and_bytes_that_are_no_window(repeats: ModuleType) -> None:
    window = repeats.new_id_window(3, SEED)
    whole = sent(b"payload", b"", 5)
    for end in range(1, len(whole)):
        with pytest.raises(DecodeError):
            repeats.drop_repeats(whole[:end], window)
    with pytest.raises(DecodeError):
        repeats.note_ids(stored(b"x")[:-1], window)
    with pytest.raises(InvalidInputError, match="are not a window"):
        repeats.drop_repeats(whole, window[:-1])
    assert repeats.drop_repeats(whole, window) is None
