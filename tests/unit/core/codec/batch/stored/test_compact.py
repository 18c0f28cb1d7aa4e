"""Keeping the last message of each key: the hash, the table, what stays, and the index entries that come with it."""

from __future__ import annotations

import struct
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headstream.core.codec.batch.stored.scan import scan
from headstream.core.codec.binary import decode_polled
from headstream.errors import DecodeError, InvalidInputError
from headstream.log.segments.layout import IndexEntry, decode_entry
from tests.support import kernels
from tests.support.messages.batches import header, sent, stored

SEED = bytes(range(16))
MARKED = 30
NULL = header("hs.null", 3, b"\1")


def key(value: bytes) -> bytes:
    return header("hs.key", 1, value)


compact = kernels.fixture("batch.stored.compact")


def keep(  # type: ignore[no-untyped-def]
    compact: ModuleType, chunk: bytes, table: bytearray, *, null_before_us: int = 0, at: int = 0, base: int = 0, due=range(100)
):
    dropped = b"".join(offset.to_bytes(8, "little") for offset in due)
    options = {"null_before_us": null_before_us, "dropped_state": MARKED, "dropped": dropped}
    return compact.compact_messages(chunk, table, SEED, **options, byte_position=at, base_offset=base)


def entries_of(rows: memoryview, base: int) -> list[IndexEntry | None]:
    return [decode_entry(rows[at : at + 32], base) for at in range(0, len(rows), 32)]


@pytest.mark.parametrize(
    ("size", "expected"),
    [(0, "a3817f04ba25a8e66df67214c7550293"), (1, "da87c1d86b99af44347659119b22fc45"), (15, "5493e99933b0a8117e08ec0f97cfc3d9")],
)
def test_siphash_is_the_published_one(size: int, expected: str) -> None:
    for module in kernels.variants("batch.stored.siphash"):
        assert module.siphash(bytes(range(size)), SEED).hex() == expected


messages = st.lists(
    st.tuples(
        st.integers(1, 3),  # to the next offset
        st.integers(0, 2),  # to the next time
        st.sampled_from([1, 1, 1, 10, MARKED]),
        st.sampled_from([None, b"", b"a", b"b", b"long " * 10]),
        st.booleans(),  # null
        st.binary(max_size=30),
    ),
    max_size=25,
)


@settings(max_examples=80, deadline=None)
@given(drawn=messages, null_before_us=st.integers(0, 20), base=st.integers(0, 5), at=st.integers(0, 1000))
def test_keep_last_keeps_what_a_plain_look_keeps(drawn: list, null_before_us: int, base: int, at: int) -> None:  # type: ignore[type-arg]
    offset, time_us, chunk = base - 1, 0, b""
    plain = []
    for offset_step, time_step, state, name, is_null, payload in drawn:
        offset, time_us = offset + offset_step, time_us + time_step
        block = (b"" if name is None else key(name)) + (NULL if is_null else b"")
        whole = stored(b"" if is_null else payload, block, offset=offset, state=state, timestamp_us=time_us)
        plain.append((offset, time_us, state, name, is_null, whole))
        chunk += whole
    last = {name: offset for offset, _, _, name, _, _ in plain}
    stays = [
        each for each in plain
        if each[2] != MARKED and (each[3] is None or (last[each[3]] == each[0] and not (each[4] and each[1] < null_before_us)))
    ]  # fmt: skip
    nulls = [each[1] for each in stays if each[4] and each[3] is not None]
    for compact in kernels.variants("batch.stored.compact"):
        table = compact.new_key_table(len(plain))
        assert compact.note_keys(chunk, table, SEED) == len(chunk)
        kept = keep(compact, chunk, table, null_before_us=null_before_us, at=at, base=base)
        assert bytes(kept.data) == b"".join(each[5] for each in stays)
        assert (kept.count, kept.dropped_count) == (len(stays), len(plain) - len(stays))
        assert kept.oldest_null_us == (min(nulls) if nulls else None)
        position = at
        found = []
        for entry in entries_of(kept.entries, base):
            assert entry is not None
            assert entry.byte_position == position
            run = scan(kept.data[position - at : entry.end_position - at])
            assert (run.end, run.count, run.crc32c) == (entry.size_bytes, entry.messages_count, entry.crc32c)
            assert (run.first_timestamp_us, run.last_timestamp_us) == (entry.timestamp_us, entry.timestamp_us)
            found += list(range(entry.first_offset, entry.end_offset))
            position = entry.end_position
        assert found == [each[0] for each in stays] == [message.offset for message in decode_polled(bytes(kept.data))]


def test_note_keys_stops_where_there_is_no_room(compact: ModuleType) -> None:
    table = compact.new_key_table(1)
    room = (len(table) - 16) // 24 // 4 * 3
    whole = [stored(b"x", key(b"%d" % number), offset=number) for number in range(room + 1)]
    assert compact.note_keys(b"".join(whole), table, SEED) == sum(map(len, whole[:-1]))
    assert compact.note_keys(stored(b"x", key(b"3"), offset=99), table, SEED) > 0
    kept = keep(compact, b"".join(whole), table)
    assert (kept.count, kept.dropped_count) == (room, 1)


def test_a_key_that_reaches_beyond_its_headers_is_none(compact: ModuleType) -> None:
    broken = bytearray(key(b"abc"))
    broken[11:15] = struct.pack("<I", 1000)
    assert compact.find_keyless(sent(b"x", bytes(broken))) == 0
    table = compact.new_key_table(1)
    message = stored(b"x", bytes(broken), offset=5)
    assert compact.note_keys(message, table, SEED) == len(message)
    assert keep(compact, message, table).count == 1


def test_find_keyless_names_the_first(compact: ModuleType) -> None:
    keyed, other = sent(b"x", key(b"k") + header("a", 2, b"b")), sent(b"x", header("a", 2, b"b") + key(b"k"))
    assert compact.find_keyless(keyed * 3) == -1
    assert compact.find_keyless(keyed * 3 + other) == 3
    assert compact.find_keyless(b"") == -1
    assert compact.find_keyless(keyed + other[:30]) == -1  # cut short: somebody else refuses it


def test_compaction_refuses_damaged_batches_and_key_tables_of_a_wrong_size(compact: ModuleType) -> None:
    table = compact.new_key_table(1)
    with pytest.raises(DecodeError):
        compact.note_keys(stored(b"x")[:-1], table, SEED)
    with pytest.raises(DecodeError):
        keep(compact, stored(b"x")[:-1], table)
    with pytest.raises(InvalidInputError, match="table of 10 or"):
        compact.note_keys(stored(b"x"), bytearray(10), SEED)
    with pytest.raises(InvalidInputError, match="seed of 3"):
        compact.note_keys(stored(b"x"), table, b"abc")


def test_only_listed_messages_in_the_state_are_dropped(compact: ModuleType) -> None:
    states = {3: MARKED, 4: 1, 5: MARKED, 7: MARKED, 8: 20, 9: MARKED}
    chunk = b"".join(stored(b"%d" % offset, offset=offset, state=state) for offset, state in states.items())
    for due, kept in (((), [3, 4, 5, 7, 8, 9]), ((4, 5, 6, 8, 9), [3, 4, 7, 8]), ((1, 2, 3, 7, 99), [4, 5, 8, 9])):
        found = keep(compact, chunk, compact.new_key_table(1), due=due)
        assert [message.offset for message in decode_polled(bytes(found.data))] == kept
        assert (found.count, found.dropped_count) == (len(kept), 6 - len(kept))
