"""What Hypothesis makes for tests: header values of every kind, and headers of them."""

from __future__ import annotations

from hypothesis import strategies as st

from headstream.core.model.header_values import KIND_WIDTHS, HeaderKind, HeaderValue
from headstream.core.model.headers import Headers


def value_of(kind: int) -> st.SearchStrategy[HeaderValue]:
    if kind == HeaderKind.STRING:
        return st.text(st.characters(codec="utf-8"), max_size=90).map(lambda text: HeaderValue(kind, text.encode()))
    if kind == HeaderKind.BOOL:
        return st.booleans().map(lambda flag: HeaderValue(kind, bytes([flag])))
    width = KIND_WIDTHS.get(kind)
    size = (0, 300) if width is None else (width, width)
    return st.binary(min_size=size[0], max_size=size[1]).map(lambda data: HeaderValue(kind, data))


header_names = st.one_of(
    st.sampled_from(["hs.key", "hs.null", "hs.timestamp", "a", "b"]),
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=60).filter(lambda name: len(name.encode()) <= 255),
)
known_values = st.sampled_from(list(HeaderKind)).flatmap(value_of)
all_headers = st.lists(st.tuples(header_names, known_values), max_size=8).map(Headers)
