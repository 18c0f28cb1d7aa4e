"""Summaries: the truth of a filter for a message is one that the summary allows, so that no skipped segment has a hit."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headstream.core.codec.batch.stored import summaries
from headstream.core.codec.binary import decode_polled, encode_polled
from headstream.core.filters import pruning
from headstream.core.filters.evaluation import FAILED, TRUE, evaluate
from headstream.core.filters.expression import Field
from headstream.core.filters.filter import Filter, parse_filter
from headstream.core.filters.pruning import MessagesSummary, possible_truths
from headstream.core.filters.summarizing import HeaderSummarizer
from headstream.core.filters.value_summary import ValueSummary, whole_range
from headstream.core.model import constructors as kinds
from headstream.core.model.headers import Headers
from headstream.core.model.message import Message, ReceivedMessage
from headstream.errors import InvalidInputError
from headstream.log.segments.index import IndexReader
from headstream.log.segments.layout import IndexEntry, encode_entry, encode_header
from headstream.log.segments.summaries import SegmentSummary, encode_summary, read_summary
from headstream.log.system.files import MemoryFiles
from tests.property.test_filter_properties import NAMES, expressions, messages
from tests.support import kernels

INTERPRETED = kernels.interpreted("batch.stored.summaries")
SUMMARIZED = NAMES[:4]


def summarize(stored: Sequence[bytes], count: int, names: Sequence[str] = SUMMARIZED) -> dict[str, ValueSummary]:
    summarizer = HeaderSummarizer(names, count)
    for chunk in stored:
        summarizer.add(chunk)
    return through_a_file(summarizer.finish())


def through_a_file(headers: dict[str, ValueSummary]) -> dict[str, ValueSummary]:
    """Return the summaries as a reader of the file gets them."""
    files = MemoryFiles()
    files.make_directory("p")
    entry = IndexEntry(0, 100, 7, 3, 5, 9)
    files.replace("p/00000000000000000007.index", encode_header(7) + encode_entry(entry, 7))
    file = files.open_read("p/00000000000000000007.index")
    assert file is not None
    index = IndexReader(file, "index", 7)
    files.replace("p/00000000000000000007.summary", encode_summary(index, SegmentSummary(3, headers)))
    found = read_summary("p", index, files)
    assert found is not None
    assert found.messages_count == 3
    return dict(found.headers)


def summary_of(decoded: Sequence[ReceivedMessage], headers: dict[str, ValueSummary]) -> MessagesSummary:
    offsets, times = [m.offset for m in decoded], [m.timestamp for m in decoded]
    fields = {Field.OFFSET: whole_range(min(offsets), max(offsets)), Field.TIMESTAMP: whole_range(min(times), max(times))}
    return MessagesSummary(headers, fields)


@settings(max_examples=400, deadline=None)
@given(expressions, st.lists(messages, min_size=1, max_size=6))
@example("a = 3.0", [Message(headers=Headers({"a": kinds.uint8(3)}), offset=1, timestamp=0, payload=b"")])
@example("a <> 1", [Message(headers=Headers({"a": kinds.float64(float("nan"))}), offset=1, timestamp=0, payload=b"")])
@example("a = 1", [Message(headers=Headers([("a", 1), ("a", 2)]), offset=1, timestamp=0, payload=b"")])
@example("a = 'x'", [Message(headers=Headers({"a": 1}), offset=1, timestamp=0, payload=b"")])
def test_each_message_has_one_of_the_truth_values_that_the_summary_allows(text: str, given_messages: list[Any]) -> None:
    try:
        chosen = parse_filter(text)
    except InvalidInputError:
        return  # a number beside a text, for example
    decoded = decode_polled(encode_polled(given_messages))
    half = len(given_messages) // 2
    chunks = [encode_polled(given_messages[:half]), encode_polled(given_messages[half:])]
    allowed = possible_truths(chosen.expression, summary_of(decoded, summarize(chunks, len(decoded))))
    for message in decoded:
        assert allowed >> evaluate(chosen.expression, message) & 1


@settings(max_examples=70, deadline=None)
@given(st.lists(messages, max_size=6))
def test_headers_are_summarized_alike_compiled_and_interpreted(given_messages: list[Any]) -> None:
    stored = encode_polled(given_messages)
    found = []
    for module in (summaries, INTERPRETED):
        blooms = bytearray(4 * 128)
        result = module.summarize_headers(stored, module.HeaderNames(SUMMARIZED), [True, False, True, True], blooms, 7)
        found.append((repr(result), bytes(blooms)))
    assert found[0] == found[1]


# -- that it does skip, and without a list of values too --------------------------------------------------------------------


def make_segment(rng: random.Random) -> list[Message]:
    """Return messages of one tenant or a few, as of a burst; their user ids are too many to be listed."""
    tenants = rng.sample(range(1000), rng.choice([1, 3]))
    first = rng.randrange(1 << 40)
    return [
        Message(
            headers=Headers(
                [
                    ("tenant", f"tenant-{rng.choice(tenants)}"),
                    ("user_id", rng.choice([kinds.uint64, kinds.int64])(first + rng.randrange(10_000))),
                    *([("attempt", kinds.uint8(rng.randrange(3)))] if rng.random() < 0.5 else []),
                    ("email", f"{rng.randrange(1 << 30):x}@example.org"),
                ]
            ),
            offset=offset,
            timestamp=1_000_000 + offset,
            payload=b"x",
        )
        for offset in range(200)
    ]


def make_filter(rng: random.Random, segment: list[Message]) -> str:
    of: Any = rng.choice(segment).headers
    is_there = rng.random() < 0.3
    tenant = of["tenant"].value if is_there else f"tenant-{rng.randrange(1000)}"
    user_id = of["user_id"].value if is_there else rng.randrange(1 << 40)
    email = of["email"].value if is_there else f"{rng.randrange(1 << 30):x}@example.org"
    return rng.choice(
        [
            f"tenant = '{tenant}'",
            f"tenant IN ('{tenant}', 'nobody')",
            f"user_id = {user_id}",
            f"user_id = {user_id}.0 AND tenant IS NOT NULL",
            f"email = '{email}' OR tenant LIKE '{tenant}'",
            f"NOT (tenant <> '{tenant}')",
            f"user_id BETWEEN {user_id} AND {user_id + 10}",
            f"attempt >= {rng.randrange(5)}",
            f"email = '{email}' AND _state = 'available'",
            f"_timestamp > {rng.randrange(999_000, 1_001_000)}",
            "tenant IS NULL",
        ]
    )


def count_skips(seed: int) -> tuple[int, int, int]:
    """Return how many of some filters skip, should have skipped, and have a hit; raise if one skips a hit."""
    rng = random.Random(seed)
    skipped = missed = hits = 0
    for _ in range(60):
        segment = make_segment(rng)
        stored = encode_polled(segment)
        decoded = decode_polled(stored)
        known = summary_of(decoded, summarize([stored], len(segment), ["tenant", "user_id", "attempt", "email"]))
        for _ in range(10):
            chosen = parse_filter(make_filter(rng, segment))
            has_hit = any(evaluate(chosen.expression, message) in (TRUE, FAILED) for message in decoded)
            is_skipped = not chosen.may_match(known)
            assert not (has_hit and is_skipped), f"seed {seed}: {chosen.text} skips a hit"
            skipped, missed, hits = skipped + is_skipped, missed + (not has_hit and not is_skipped), hits + has_hit
    return skipped, missed, hits


def test_a_segment_without_a_hit_is_nearly_always_skipped_and_one_with_a_hit_never() -> None:
    skipped, missed, hits = count_skips(1)
    assert hits > 100
    assert skipped > 200
    assert missed <= (skipped + missed) * 0.03  # a Bloom filter has 1 % of false hits


def test_the_histories_find_a_planner_that_skips_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning, "_may_equal", lambda *_: False)
    monkeypatch.setattr(ValueSummary, "may_equal", lambda self, value: False)
    with pytest.raises(AssertionError, match="skips a hit"):
        count_skips(1)


def test_a_bloom_filter_has_about_one_percent_of_false_hits() -> None:
    count = 20_000
    stored = encode_polled(
        [Message(headers=Headers({"id": kinds.uint64(7 * n)}), offset=n, timestamp=0, payload=b"") for n in range(count)]
    )
    found = summarize([stored], count, ["id"])["id"]
    assert all(found.may_equal(7 * n) for n in range(count))
    false_hits = sum(found.may_equal(7 * n + 1) for n in range(count - 1))
    assert 0 < false_hits < count * 0.02
    assert found.bloom is not None
    assert len(found.bloom.bits) * 8 <= 20 * count


def test_a_value_that_differs_only_by_its_kind_is_found() -> None:
    cases: list[tuple[Any, str]] = [
        (kinds.int8(3), "h = 3.0"),
        (kinds.float64(3.0), "h = 3"),
        (kinds.uint128((1 << 128) - 1), f"h = {(1 << 128) - 1}"),
        (kinds.int128(-(1 << 127)), f"h = -{1 << 127}"),
        (kinds.char("é"), "h = 'é'"),
        (kinds.raw(b"web"), "h = 'web'"),
        (kinds.float32(0.1), "h > 0.1"),
        (kinds.float64(float("-inf")), "h < -1e300"),
    ]
    for value, text in cases:
        others = [Message(headers=Headers({"h": f"other {n}"}), offset=n, timestamp=0, payload=b"") for n in range(70)]
        for before in ([], others):  # listed, and in a Bloom filter
            stored = encode_polled([*before, Message(headers=Headers({"h": value}), offset=99, timestamp=0, payload=b"")])
            chosen: Filter = parse_filter(text)
            assert chosen.may_match(MessagesSummary(summarize([stored], 71, ["h"]), {})), (value, text)
