"""Headers: the ordered multimap of typed values that a message carries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias, Union

from headstream.errors import HeaderError
from headstream.model.constructors import HeaderInput, header_value
from headstream.model.header_values import HeaderKind, HeaderValue, PlainValue

__all__ = ["MAX_KEY_BYTES", "HeaderKind", "HeaderValue", "Headers", "HeadersInput", "check_key"]

MAX_KEY_BYTES: Final = 255
"""A header key has 1 to 255 bytes of UTF-8 in every dialect."""


def check_key(key: str) -> str:
    """Return a header key if it can be one: 1 to 255 bytes of UTF-8, its case kept.

    Raises:
        HeaderError: it cannot.
    """
    if not isinstance(key, str):
        raise HeaderError(f"a header key is a str, not {type(key).__name__}")
    try:
        size = len(key.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise HeaderError(f"character {error.start} of the header key has no UTF-8 spelling", where=repr(key[:40])) from None
    if not 1 <= size <= MAX_KEY_BYTES:
        raise HeaderError(f"a header key has 1 to {MAX_KEY_BYTES} bytes, this one has {size}", where=repr(key[:40]))
    return key


HeadersInput: TypeAlias = Union["Headers", Mapping[str, Any], Iterable[tuple[str, Any]]]


class Headers:
    """An ordered multimap of typed values: order and repeats are kept, and nothing can be changed.

    `headers["k"]` is the last value of a repeated key, `headers.getall("k")` all of them in order.
    Iterating gives each distinct key once, in order of first appearance; `items()` gives every pair.

    Args:
        source: A mapping, an iterable of pairs (for repeats), or Headers; values are typed or plain.

    Raises:
        HeaderError: a key or value is not legal.
    """

    __slots__ = ("_pairs",)
    _pairs: tuple[tuple[str, HeaderValue], ...]

    def __init__(self, source: HeadersInput = ()) -> None:
        if isinstance(source, Headers):
            pairs = source._pairs
        else:
            items = source.items() if isinstance(source, Mapping) else _pairs_of(source)
            pairs = tuple((check_key(key), _named(key, value)) for key, value in items)
        object.__setattr__(self, "_pairs", pairs)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("Headers are frozen: build new ones with with_() or Headers(...)")

    def __getitem__(self, key: str) -> HeaderValue:
        for name, value in reversed(self._pairs):
            if name == key:
                return value
        raise KeyError(key)

    def get(self, key: str, default: Any = None) -> Any:
        """Return the last value of a key, or `default` where there is none."""
        for name, value in reversed(self._pairs):
            if name == key:
                return value
        return default

    def getall(self, key: str) -> tuple[HeaderValue, ...]:
        """Return every value of a key in order; empty where there is none."""
        return tuple(value for name, value in self._pairs if name == key)

    def keys(self) -> tuple[str, ...]:
        """Return the distinct keys in order of first appearance."""
        return tuple(dict.fromkeys(name for name, _ in self._pairs))

    def items(self) -> tuple[tuple[str, HeaderValue], ...]:
        """Return every pair in order, repeats included."""
        return self._pairs

    def values(self) -> tuple[HeaderValue, ...]:
        """Return every value in order, repeats included."""
        return tuple(value for _, value in self._pairs)

    @property
    def repeated(self) -> bool:
        """Whether some key appears more than once."""
        return len({name for name, _ in self._pairs}) != len(self._pairs)

    def with_(self, *pairs: tuple[str, Any]) -> Headers:
        """Return new headers with these pairs after the present ones."""
        return Headers((*self._pairs, *pairs))

    def without(self, key: str) -> Headers:
        """Return new headers without any value of a key."""
        return Headers(pair for pair in self._pairs if pair[0] != key)

    def to_dict(self) -> dict[str, PlainValue]:
        """Return plain Python values by key.

        Raises:
            HeaderError: a key repeats, which a dict cannot hold; use items().
        """
        if self.repeated:
            keys = [name for name, _ in self._pairs]
            key = next(name for name in keys if keys.count(name) > 1)
            raise HeaderError(f"the header {key!r} repeats, which a dict cannot hold", advice="Use items() or getall()")
        return {name: value.value for name, value in self._pairs}

    def __contains__(self, key: object) -> bool:
        return any(name == key for name, _ in self._pairs)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self._pairs)

    def __bool__(self) -> bool:
        return bool(self._pairs)

    def __eq__(self, other: object) -> bool:
        return self._pairs == other._pairs if isinstance(other, Headers) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._pairs)

    def __repr__(self) -> str:
        return f"Headers([{', '.join(f'({name!r}, {value!r})' for name, value in self._pairs)}])"

    def __reduce__(self) -> tuple[Any, ...]:
        return Headers, (list(self._pairs),)


def _pairs_of(source: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    if not isinstance(source, Iterable):
        raise HeaderError(f"headers are a mapping, pairs of key and value, or Headers, not {type(source).__name__}")
    for pair in source:
        try:
            key, value = pair
        except (TypeError, ValueError):
            raise HeaderError(f"headers that are no mapping are pairs of key and value; {pair!r:.60} is none") from None
        yield key, value


def _named(key: str, value: HeaderInput) -> HeaderValue:
    try:
        return header_value(value)
    except HeaderError as error:
        raise HeaderError(error.what, where=f"header {key!r}", advice=error.advice) from None
