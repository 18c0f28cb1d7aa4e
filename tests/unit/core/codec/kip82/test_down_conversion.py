"""Unit tests of headstream.core.codec.kip82.down_conversion."""

from __future__ import annotations

import pytest

from headstream.core.codec.kip82 import decode_message, down_convert, encode_message
from headstream.errors import InvalidInputError
from tests.support.messages.kip82 import message
from tests.unit.core.codec.kip82.test_message import BLOCK


@pytest.mark.parametrize("magic", [0, 1])
def test_down_conversion_says_what_it_drops(magic: int) -> None:
    found, _ = decode_message(message(b"v", BLOCK, key=b"k", timestamp_ms=5, offset=9))
    converted, lost = down_convert(found, magic)
    assert encode_message(converted) == message(b"v", key=b"k", timestamp_ms=5, magic=magic, offset=9)
    names = ["header 'attempt' (int32)", "header 'trace' (string)", "header 'gone' (null)"]
    assert list(lost) == names + (["timestamp 5 ms"] if magic == 0 else [])
    with pytest.raises(InvalidInputError, match="cannot be converted down"):
        down_convert(converted, 2)
