"""Headers: the ordered multimap."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import headstream as hs
from headstream.core.model.header_block import check_key

REPEATED = hs.Headers([("a", 1), ("b", "x"), ("a", hs.uint8(2)), ("c", None)])


def test_headers_take_a_mapping_pairs_or_headers() -> None:
    assert hs.Headers({"a": 1, "b": "x"}).items() == (("a", hs.int64(1)), ("b", hs.string("x")))
    assert hs.Headers([("a", 1)]) == hs.Headers((("a", 1),)) == hs.Headers({"a": 1}) == hs.Headers(iter([("a", 1)]))
    assert hs.Headers(REPEATED) == REPEATED
    assert hs.Headers().items() == ()


def test_a_repeated_key_gives_its_last_value_and_all_on_request() -> None:
    assert REPEATED["a"] == hs.uint8(2)
    assert REPEATED.get("a") == hs.uint8(2)
    assert REPEATED.getall("a") == (hs.int64(1), hs.uint8(2))
    assert REPEATED.getall("none") == ()
    assert REPEATED.repeated
    assert not hs.Headers({"a": 1}).repeated


def test_headers_keep_the_order_and_the_repeats_of_their_keys() -> None:
    assert [(name, value.value) for name, value in REPEATED.items()] == [("a", 1), ("b", "x"), ("a", 2), ("c", None)]
    assert REPEATED.keys() == tuple(REPEATED) == ("a", "b", "c")
    assert [value.value for value in REPEATED.values()] == [1, "x", 2, None]
    assert len(REPEATED) == 4


def test_headers_find_a_key_and_its_first_value() -> None:
    assert "a" in REPEATED
    assert "A" not in REPEATED
    assert 5 not in REPEATED
    assert REPEATED.get("none") is None
    assert REPEATED.get("none", 7) == 7
    with pytest.raises(KeyError, match="none"):
        REPEATED["none"]


def test_with_and_without_give_new_headers() -> None:
    longer = REPEATED.with_(("b", 2), ("d", hs.raw(b"")))
    assert [name for name, _ in longer.items()] == ["a", "b", "a", "c", "b", "d"]
    assert longer.without("a").without("b").keys() == ("c", "d")
    assert len(REPEATED) == 4


def test_to_dict_refuses_repeats_rather_than_drop_them() -> None:
    assert hs.Headers({"a": 1, "b": None}).to_dict() == {"a": 1, "b": None}
    with pytest.raises(hs.HeaderError, match=r"the header 'a' is repeated, which a dict cannot represent\. Use items"):
        REPEATED.to_dict()


def test_equality_is_that_of_pairs_in_order() -> None:
    assert hs.Headers([("a", 1), ("b", 2)]) != hs.Headers([("b", 2), ("a", 1)])
    assert hs.Headers({"a": 1}) != hs.Headers({"a": hs.uint8(1)})
    assert hs.Headers({"a": 1}) != {"a": 1}
    assert len({hs.Headers({"a": 1}), hs.Headers([("a", 1)]), hs.Headers()}) == 2
    assert not hs.Headers()
    assert REPEATED


def test_headers_survive_repr_pickle_and_copy() -> None:
    assert repr(REPEATED) == "Headers([('a', int64(1)), ('b', string('x')), ('a', uint8(2)), ('c', null())])"
    names: dict[str, Any] = {name: getattr(hs, name) for name in ("Headers", "int64", "string", "uint8", "null")}
    assert eval(repr(REPEATED), names) == REPEATED
    assert pickle.loads(pickle.dumps(REPEATED)) == REPEATED
    assert copy.deepcopy(REPEATED) == REPEATED


def test_headers_have_no_attributes_to_set() -> None:
    with pytest.raises(AttributeError, match="that can be set"):
        REPEATED._pairs = ()
    with pytest.raises(TypeError):
        REPEATED["a"] = 1  # type: ignore[index]


@pytest.mark.parametrize("key", ["a", "ü" * 127, "k" * 255, "With Case", "a.b/c", "\n", "\0"])
def test_keys_of_1_to_255_bytes_are_kept_as_they_are(key: str) -> None:
    assert check_key(key) == key
    assert hs.Headers({key: 1}).keys() == (key,)


@pytest.mark.parametrize(
    ("key", "text"),
    [("", "not 0"), ("k" * 256, "not 256"), ("ü" * 128, "not 256"), ("\ud800", "be encoded as UTF-8"),
     (5, "a header key must be a str, not int"), (b"k", "not bytes"), (None, "not NoneType")],
)  # fmt: skip
def test_headers_refuse_a_key_that_is_not_text_or_has_a_wrong_length(key: Any, text: str) -> None:
    with pytest.raises(hs.HeaderError, match=text):
        hs.Headers({key: 1})


def test_a_value_that_is_refused_names_its_header() -> None:
    with pytest.raises(hs.HeaderError, match=r"object has no header kind \(header 'b'\)"):
        hs.Headers({"a": 1, "b": object()})
    with pytest.raises(hs.HeaderError, match=r"out of range for int64 .*\(header 'n'\)\. Use uint64"):
        hs.Headers({"n": 1 << 63})


@pytest.mark.parametrize("source", [5, None, [5], ["abc"], [("a",)], [("a", 1, 2)], object()])
def test_headers_refuse_arguments_of_other_types(source: Any) -> None:
    with pytest.raises(hs.HeaderError, match="headers"):
        hs.Headers(source)


def test_an_error_of_the_source_itself_is_let_through() -> None:
    def broken() -> Any:
        yield "a", 1
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        hs.Headers(broken())
