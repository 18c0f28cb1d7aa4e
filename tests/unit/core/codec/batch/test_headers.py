"""Unit tests of headstream.core.codec.batch.headers."""

from __future__ import annotations

from types import ModuleType

import pytest

from headstream.errors import DecodeError
from tests.support.messages.batches import header, sent
from tests.unit.core.codec.batch.stored.test_stamp import NOW, SEED, stamp

__all__ = ["stamp"]  # fixtures


@pytest.mark.parametrize("kind", [3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 64, 65])
def test_stamp_refuses_a_value_that_has_not_the_width_of_its_kind(stamp: ModuleType, kind: int) -> None:
    width = {3: 1, 4: 1, 5: 2, 6: 4, 7: 8, 8: 16, 9: 1, 10: 2, 11: 4, 12: 8, 13: 16, 14: 4, 15: 8, 64: 0, 65: 2}[kind]
    assert stamp.stamp(sent(b"p", header("k", kind, bytes(width))), 0, NOW, SEED, True).count == 1
    for wrong in {width + 1, max(width - 1, 0)} - {width}:
        with pytest.raises(DecodeError, match="does not have the width of its kind") as caught:
            stamp.stamp(sent(b"p", header("k", kind, bytes(wrong))), 0, NOW, SEED, True)
        assert (caught.value.at, caught.value.need, caught.value.have) == (30, width, wrong)


def test_stamp_refuses_text_that_is_not_utf8_and_a_bool_that_is_not_one(stamp: ModuleType) -> None:
    with pytest.raises(DecodeError, match="string header value is not UTF-8") as caught:
        stamp.stamp(sent(b"p", header("k", 2, b"ab\xff")), 0, NOW, SEED, False)
    assert caught.value.at == 32
    with pytest.raises(DecodeError, match="header key is not UTF-8") as caught:
        stamp.stamp(sent(b"p", header(b"abcdefghij\xc3", 2, b"ab")), 0, NOW, SEED, False)
    assert caught.value.at == 34
    with pytest.raises(DecodeError, match="not 0 or 1"):
        stamp.stamp(sent(b"p", header("k", 3, b"\x02")), 0, NOW, SEED, False)


def test_stamp_takes_exactly_the_texts_that_python_takes_as_utf8(stamp: ModuleType) -> None:
    leads = [bytes([a, b]) for a in range(0x7F, 256) for b in (0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0)]
    tails = (b"", b"\x80", b"\xbf\x80", b"\x80\x80a", b"\x41\x80")
    for text in [b"padding!" + lead + tail for lead in leads for tail in tails]:
        good = size_of_utf8(text)
        batch = sent(b"p", header("k", 2, text))
        if good == len(text):
            assert stamp.stamp(batch, 0, NOW, SEED, False).count == 1
        else:
            with pytest.raises(DecodeError) as caught:
                stamp.stamp(batch, 0, NOW, SEED, False)
            assert caught.value.at == 30 + good


def size_of_utf8(text: bytes) -> int:
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return error.start
    return len(text)
