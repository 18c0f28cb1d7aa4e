"""Column masks: any width, both byte orders, and the hex digits of JSON."""

from __future__ import annotations

import pytest

from headstream.errors import DecodeError, InvalidInputError
from headstream.replicate.codec import decode_mask, encode_mask, mask_from_hex, mask_to_hex


@pytest.mark.parametrize(
    ("text", "ordinals"),
    [
        ("0B", {1, 2, 4}),  # the guide's own example
        ("B", {1, 2, 4}),
        ("05", {1, 3}),
        ("00", set()),
        ("", set()),
        ("008080", {8, 16}),
        ("8080", {8, 16}),
        ("100", {9}),
        ("8" + "0" * 29, {120}),
        ("fF", set(range(1, 9))),
    ],
)
def test_mask_from_hex_reads_an_ordinary_hex_number(text: str, ordinals: set[int]) -> None:
    assert decode_mask(mask_from_hex(text)) == ordinals


def test_mask_from_hex_reads_masks_of_more_than_64_columns() -> None:
    ordinals = decode_mask(mask_from_hex("1F903C3000003FFFFFFFFFFFFFFFFF"))
    assert len(ordinals) == 70 + 2 + 4 + 2 + 5
    assert max(ordinals) == 117
    assert ordinals >= set(range(1, 71))


@pytest.mark.parametrize("text", ["0x", "G", "0 0", " 05", "0B\n", "٣"])
def test_mask_from_hex_refuses_what_is_no_hex_number(text: str) -> None:
    with pytest.raises(DecodeError, match="hex digit"):
        mask_from_hex(text)


@pytest.mark.parametrize("ordinals", [set(), {1}, {8}, {9}, {1, 2, 4}, set(range(1, 130)), {1000}])
def test_encode_mask_is_undone_by_decode_mask_in_both_orders(ordinals: set[int]) -> None:
    little, big = encode_mask(ordinals), encode_mask(ordinals, order="big")
    assert little[::-1] == big
    assert decode_mask(little) == decode_mask(big, "big") == ordinals
    assert decode_mask(mask_from_hex(mask_to_hex(little))) == ordinals
    assert decode_mask(encode_mask(ordinals, 200)) == ordinals
    assert len(encode_mask(ordinals, 200)) == 200


def test_decode_mask_takes_byte_0_for_the_first_8_ordinals_unless_told() -> None:
    assert decode_mask(b"\x01\x80") == {1, 16}
    assert decode_mask(b"\x01\x80", "big") == {8, 9}
    assert decode_mask(b"") == frozenset()


def test_mask_to_hex_keeps_the_width() -> None:
    assert mask_to_hex(b"\x80\x80\x00") == "008080"
    assert mask_to_hex(b"") == ""


@pytest.mark.parametrize(("ordinals", "width"), [([0], None), ([-1], None), ([9], 1), ([1], 0)])
def test_encode_mask_refuses_ordinals_without_a_bit(ordinals: list[int], width: int | None) -> None:
    with pytest.raises(InvalidInputError):
        encode_mask(ordinals, width)
