"""Header values and headers for property tests, of every kind there is."""

from __future__ import annotations

from hypothesis import strategies as st

import headstream as hs
from headstream.core.model.constructors import CONSTRUCTORS

KEYS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60).filter(
    lambda key: len(key.encode()) <= 255 and not key.startswith("hs.")
)
"""Keys as users may give them: names that begin with `hs.` are reserved."""

FEW_KEYS = st.sampled_from(["a", "b", "A", "ü"])


def _integers(bits: int, signed: bool) -> st.SearchStrategy[int]:
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1) if signed else st.integers(0, (1 << bits) - 1)


IGGY_VALUES: st.SearchStrategy[hs.HeaderValue] = st.one_of(
    st.binary(max_size=40).map(hs.raw),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20).map(hs.string),
    st.booleans().map(hs.bool),
    *(_integers(bits, True).map(CONSTRUCTORS[f"int{bits}"]) for bits in (8, 16, 32, 64, 128)),
    *(_integers(bits, False).map(CONSTRUCTORS[f"uint{bits}"]) for bits in (8, 16, 32, 64, 128)),
    st.floats(width=32).map(hs.float32),
    st.floats().map(hs.float64),
)
VALUES: st.SearchStrategy[hs.HeaderValue] = st.one_of(
    IGGY_VALUES,
    st.just(hs.null()),
    st.characters(max_codepoint=0xFFFF).map(hs.char),
    st.builds(hs.HeaderValue, st.integers(66, 255), st.binary(max_size=10)),
)
PAIRS = st.lists(st.tuples(st.one_of(FEW_KEYS, KEYS), VALUES), max_size=12)

MESSAGES: st.SearchStrategy[hs.Message] = st.builds(
    hs.Message,
    payload=st.none() | st.binary(max_size=30),
    headers=PAIRS.map(hs.Headers),
    key=st.none() | st.binary(max_size=10),
    id=st.integers(0, (1 << 128) - 1),
    offset=st.integers(0, (1 << 63) - 1),
    timestamp=st.integers(0, 10**16),
    state=st.sampled_from([1, 10, 20, 30, 77]),
)
"""Messages as a log stores them; Hypothesis finds the reserved names in the sources, where they stand for something else."""
