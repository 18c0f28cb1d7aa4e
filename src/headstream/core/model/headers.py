"""Headers: the ordered multimap of typed values that a message carries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias, Union

from headstream.core.model import constructors as kinds
from headstream.core.model.constructors import HeaderInput, header_value
from headstream.core.model.header_block import BINARY, HeaderBlock, HeaderLayout, Pair, check_key
from headstream.core.model.header_values import HeaderValue, PlainValue
from headstream.errors import HeaderError

HeadersInput: TypeAlias = Union["Headers", Mapping[str, Any], Iterable[tuple[str, Any]]]


class Serializer(NamedTuple):
    """The converters of a header key's objects, as passed to Headers.register()."""

    encode: Callable[[Any], HeaderInput]
    decode: Callable[[Any], Any]


class Headers:
    """An ordered multimap of typed values, which keeps order and repeated keys.

    `headers["k"]` is the last value of a repeated key; `headers.getall("k")` returns all its values in order. Iteration yields
    each distinct key once, in order of first appearance; `items()` returns every pair. put(), put_string() and the other put
    methods append in place and return the same headers, so calls can be chained.
    Headers of a message, and headers that were hashed, are read-only; `Headers(message.headers)` is a writable copy.
    with_() and without() always return new headers.

    A received value is decoded on its first access. Unchanged headers are forwarded as the received bytes.

    Args:
        source: A mapping, an iterable of pairs (which allows repeated keys), or Headers; values are typed or plain.

    Raises:
        HeaderError: a key or value is invalid.
    """

    __slots__ = ("_block", "_pairs", "_read_only", "_serializers")
    _pairs: tuple[Pair, ...] | None
    _block: HeaderBlock | None
    _read_only: bool
    _serializers: Mapping[str, Serializer]

    def __init__(self, source: HeadersInput = ()) -> None:
        block, serializers = None, _NO_SERIALIZERS
        pairs: tuple[Pair, ...] | None
        if isinstance(source, Headers):
            pairs, block, serializers = source._pairs, source._block, source._serializers
        else:
            items = source.items() if isinstance(source, Mapping) else _pairs_of(source)
            pairs = tuple([(check_key(key), _checked_value(key, value)) for key, value in items])
        _set_pairs(self, pairs)
        _set_block(self, block)
        _set_serializers(self, serializers)
        _set_read_only(self, False)

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview, layout: HeaderLayout = BINARY, *, at: int = 0) -> Headers:
        """Return the headers of a block; a header is decoded on its first access.

        Args:
            layout: The encoding of the headers; by default the layout of the binary transport.
            at: Byte position of the block in its input, for error messages.

        Returns:
            The headers; DecodeError at the first access if the block is invalid, or at the access to a value that is invalid.
        """
        return _make(None, HeaderBlock(bytes(data), at, layout), _NO_SERIALIZERS) if len(data) else cls()

    @property
    def read_only(self) -> bool:
        """Whether put() raises an error, because these are the headers of a message or were hashed."""
        return self._read_only

    def as_read_only(self) -> Headers:
        """Return these headers if they are read-only, else a read-only copy."""
        return self if self._read_only else _make(self._pairs, self._block, self._serializers, read_only=True)

    def as_bytes(self, layout: HeaderLayout = BINARY) -> bytes:
        """Encode these headers as a block: the received bytes, if the headers were received in that layout.

        Args:
            layout: The encoding of the headers.

        Raises:
            HeaderError: the layout cannot encode a key or a value.
        """
        received = self.received_bytes(layout)
        return layout.encode(self.items()) if received is None else received

    def received_bytes(self, layout: HeaderLayout = BINARY) -> bytes | None:
        """Return the received bytes of these headers, or None if the headers were not received in that layout."""
        block = self._block
        return block.data if block is not None and block.layout.name == layout.name else None

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"headers have no attribute {name} that can be set: add headers with put(), or use with_()")

    def __getitem__(self, key: str) -> HeaderValue:
        if self._pairs is None and self._block is not None:
            found = self._block.last(key)
            if found is not None:
                return found
        else:
            for name, value in reversed(self._pairs or ()):
                if name == key:
                    return value
        raise KeyError(key)

    def get(self, key: str, default: Any = None) -> Any:
        """Return the last value of a key, or `default` if the key is missing."""
        if self._pairs is None and self._block is not None:
            value = self._block.last(key)
            return default if value is None else value
        for name, value in reversed(self._pairs or ()):
            if name == key:
                return value
        return default

    def getall(self, key: str) -> tuple[HeaderValue, ...]:
        """Return every value of a key in order; an empty tuple if the key is missing."""
        if self._pairs is None and self._block is not None:
            return self._block.all(key)
        return tuple(value for name, value in self._pairs or () if name == key)

    def one(self, key: str) -> HeaderValue:
        """Return the value of a key that occurs once.

        Raises:
            KeyError: the key is missing.
            HeaderError: the key repeats.
        """
        values = self.getall(key)
        if len(values) > 1:
            raise HeaderError(f"the header {key!r} occurs {len(values)} times", advice="Use getall()")
        if not values:
            raise KeyError(key)
        return values[0]

    def keys(self) -> tuple[str, ...]:
        """Return the distinct keys in order of first appearance."""
        return tuple(dict.fromkeys(self._names()))

    def items(self) -> tuple[Pair, ...]:
        """Return every pair in order, including repeated keys."""
        pairs = self._pairs
        if pairs is None:
            pairs = self._block.pairs() if self._block is not None else ()
            _set_pairs(self, pairs)
        return pairs

    def values(self) -> tuple[HeaderValue, ...]:
        """Return every value in order, including the values of repeated keys."""
        return tuple(value for _, value in self.items())

    @property
    def repeated(self) -> bool:
        """Whether any key appears more than once."""
        names = self._names()
        return len(set(names)) != len(names)

    def with_(self, *pairs: tuple[str, Any]) -> Headers:
        """Return new headers with these pairs appended."""
        return self._with_pairs((*self.items(), *Headers(pairs).items()))

    def without(self, key: str) -> Headers:
        """Return new headers without the values of a key."""
        return self._with_pairs(tuple(pair for pair in self.items() if pair[0] != key))

    def to_dict(self) -> dict[str, PlainValue]:
        """Return plain Python values by key.

        Raises:
            HeaderError: a key repeats, which a dict cannot represent; use items().
        """
        if self.repeated:
            keys = self._names()
            key = next(name for name in keys if keys.count(name) > 1)
            raise HeaderError(f"the header {key!r} is repeated, which a dict cannot represent", advice="Use items() or getall()")
        return {name: value.value for name, value in self.items()}

    # -- one put method per type of the typed-headers proposal (KIP-82): appends in place, as the proposal specifies

    def put_boolean(self, key: str, value: bool) -> Headers:
        """Append a bool; return these headers."""
        return self._append(key, kinds.bool_(value))

    def put_byte(self, key: str, value: int) -> Headers:
        """Append an int8; return these headers."""
        return self._append(key, kinds.int8(value))

    def put_char(self, key: str, value: str) -> Headers:
        """Append a char, one UTF-16 code unit; return these headers."""
        return self._append(key, kinds.char(value))

    def put_short(self, key: str, value: int) -> Headers:
        """Append an int16; return these headers."""
        return self._append(key, kinds.int16(value))

    def put_integer(self, key: str, value: int) -> Headers:
        """Append an int32; return these headers."""
        return self._append(key, kinds.int32(value))

    def put_long(self, key: str, value: int) -> Headers:
        """Append an int64; return these headers."""
        return self._append(key, kinds.int64(value))

    def put_float(self, key: str, value: float) -> Headers:
        """Append a float32; return these headers."""
        return self._append(key, kinds.float32(value))

    def put_double(self, key: str, value: float) -> Headers:
        """Append a float64; return these headers."""
        return self._append(key, kinds.float64(value))

    def put_string(self, key: str, value: str) -> Headers:
        """Append a string; return these headers."""
        return self._append(key, kinds.string(value))

    def put_bytes(self, key: str, value: bytes) -> Headers:
        """Append raw bytes; return these headers."""
        return self._append(key, kinds.raw(value))

    # -- user-defined objects behind a key --------------------------------------------------------------------

    def register(self, key: str, encode: Callable[[Any], HeaderInput], decode: Callable[[Any], Any]) -> Headers:
        """Return new headers with converters for the objects of a key, which put() and load() use.

        Args:
            encode: Converts the object to a typed or plain header value.
            decode: Converts the received plain value to the object.
        """
        return _make(self._pairs, self._block, {**self._serializers, check_key(key): Serializer(encode, decode)})

    def registered_as(self, other: Headers) -> Headers:
        """Return new headers with the converters of other headers, for example for received headers.

        Args:
            other: Headers that register() returned.
        """
        return _make(self._pairs, self._block, {**self._serializers, **other._serializers})

    def put(self, key: str, value: Any) -> Headers:
        """Append a typed or plain value, or an object of a registered key; return these headers.

        Raises:
            HeaderError: the key or value is invalid, or the headers are read-only.
        """
        serializer = self._serializers.get(key)
        return self._append(key, _checked_value(key, value if serializer is None else serializer.encode(value)))

    def load(self, key: str) -> Any:
        """Return the last value of a key: as an object if the key has a registered converter, otherwise as the plain value.

        Raises:
            KeyError: the key is missing.
        """
        plain = self[key].value
        serializer = self._serializers.get(key)
        return plain if serializer is None else serializer.decode(plain)

    # -- internal and protocol methods --------------------------------------------------------------------------

    def _names(self) -> list[str]:
        if self._pairs is None and self._block is not None:
            return self._block.keys()
        return [name for name, _ in self._pairs or ()]

    def _append(self, key: str, value: HeaderValue) -> Headers:
        if self._read_only:
            raise HeaderError(
                "the headers are read-only, because they belong to a message or were hashed",
                where=f"header {key!r}",
                advice="Use with_(), or change a copy: Headers(message.headers)",
            )
        _set_pairs(self, (*self.items(), (check_key(key), value)))
        _set_block(self, None)
        return self

    def _with_pairs(self, pairs: tuple[Pair, ...]) -> Headers:
        return _make(pairs, None, self._serializers)

    def __contains__(self, key: object) -> bool:
        return key in self._names()

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self._names())

    def __bool__(self) -> bool:
        return self._block is not None or bool(self._pairs)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Headers):
            return NotImplemented
        mine, its = self._block, other._block
        if mine is not None and its is not None and mine.layout is its.layout and mine.data == its.data:
            return True
        return self.items() == other.items()

    def __hash__(self) -> int:
        _set_read_only(self, True)  # after a change, a set or dict would not find the headers
        return hash(self.items())

    def __repr__(self) -> str:
        return f"Headers([{', '.join(f'({name!r}, {value!r})' for name, value in self.items())}])"

    def __reduce__(self) -> tuple[Any, ...]:
        if self._block is not None:
            return Headers.from_bytes, (self._block.data, self._block.layout)
        return Headers, (list(self.items()),)


def undecoded_headers(data: bytes, at: int) -> Headers:
    """Return the headers of a block in the binary transport's layout; the block must have at least one header."""
    return _make(None, HeaderBlock(data, at, BINARY), _NO_SERIALIZERS, read_only=True)


_NO_SERIALIZERS: Final[Mapping[str, Serializer]] = {}
_set_pairs: Final[Any] = Headers.__dict__["_pairs"].__set__
_set_block: Final[Any] = Headers.__dict__["_block"].__set__
_set_serializers: Final[Any] = Headers.__dict__["_serializers"].__set__
_set_read_only: Final[Any] = Headers.__dict__["_read_only"].__set__
_new: Final[Any] = Headers.__new__


def _make(
    pairs: tuple[Pair, ...] | None, block: HeaderBlock | None, serializers: Mapping[str, Serializer], *, read_only: bool = False
) -> Headers:
    """Return headers from checked pairs, or from a block."""
    headers: Headers = _new(Headers)
    _set_pairs(headers, pairs)
    _set_block(headers, block)
    _set_serializers(headers, serializers)
    _set_read_only(headers, read_only)
    return headers


NO_HEADERS: Final = _make((), None, _NO_SERIALIZERS, read_only=True)
"""Empty, read-only headers."""


def _pairs_of(source: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    if not isinstance(source, Iterable):
        raise HeaderError(f"headers must be a mapping, pairs of key and value, or Headers, not {type(source).__name__}")
    for pair in source:
        try:
            key, value = pair
        except (TypeError, ValueError):
            raise HeaderError(f"headers must be a mapping or pairs of key and value, not {pair!r:.60}") from None
        yield key, value


def _checked_value(key: str, value: HeaderInput) -> HeaderValue:
    try:
        return header_value(value)
    except HeaderError as error:
        raise HeaderError(error.what, where=f"header {key!r}", advice=error.advice) from None
