"""Trace contexts are found in the bytes of headers, wherever the header is, and only those of sampled traces."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import headstream as hs
from headstream.interceptors.trace_contexts import MAX_CONTEXTS
from headstream.replicate.decoding.decode import find_contexts

SAMPLED = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def blocks(*headers: Any) -> pa.Array:
    return pa.array([None if pairs is None else hs.Headers(pairs).as_bytes() for pairs in headers], pa.binary())


def test_sampled_contexts_are_found_among_other_headers_once_each() -> None:
    other = SAMPLED.replace("0af7", "1af7").replace("-01", "-03")
    found = find_contexts(
        blocks(
            [("a", hs.raw(b"\xff\x00")), ("traceparent", SAMPLED), ("z", 1)],
            [("z", "x")],
            None,
            [("traceparent", other), ("tracestate", "v=1")],
            [("traceparent", SAMPLED)],
            [],
        )
    )
    assert found == [SAMPLED, other]


def test_contexts_of_unsampled_traces_and_other_texts_are_passed_over() -> None:
    unsampled = SAMPLED.replace("-01", "-00")
    assert find_contexts(blocks([("traceparent", unsampled)], [("traceparent", "none")], [("parent", SAMPLED)])) == []
    assert find_contexts(pa.array([], pa.binary())) == []
    rows = blocks([("traceparent", SAMPLED)], [], [("traceparent", SAMPLED)])
    assert find_contexts(rows.slice(1, 1)) == []  # the bytes of the others are in the same buffer


def test_no_more_contexts_are_returned_than_a_span_has_links() -> None:
    many = [f"00-{number:032x}-b7ad6b7169203331-01" for number in range(1, 10_000)]
    assert find_contexts(blocks(*([("traceparent", one)] for one in many))) == many[:MAX_CONTEXTS]
