"""find_damaged_payload: the first message whose payload is not that of its checksum, compiled and interpreted alike."""

from __future__ import annotations

from types import ModuleType

from hypothesis import given, settings
from hypothesis import strategies as st

from headstream.core.codec.batch.to_columns.payloads import find_damaged_payload
from headstream.core.codec.binary import encode_polled
from headstream.core.model.headers import Headers
from headstream.core.model.message import Message
from tests.support import kernels

payloads = kernels.fixture("batch.to_columns.payloads")


def stored(*bodies: bytes) -> bytearray:
    return bytearray(
        encode_polled(
            [
                Message(payload=body, headers=Headers({"n": number}), offset=number, timestamp=1)
                for number, body in enumerate(bodies)
            ]
        )
    )


def test_find_wrong_payload_finds_the_first(payloads: ModuleType) -> None:
    good = stored(b"one", b"", b"three" * 1000)
    assert payloads.find_damaged_payload(good) == -1
    assert payloads.find_damaged_payload(b"") == -1
    first, second = len(stored(b"one")), len(stored(b"one", b""))
    for place, expected in ((first - 1, 0), (33, 0), (first + 33, first), (len(good) - 1, second)):
        bad = bytearray(good)
        bad[place] ^= 4
        assert payloads.find_damaged_payload(bad) == expected


@given(st.binary(max_size=200), st.integers(0, 200), st.integers(0, 255))
@settings(max_examples=200, deadline=None)
def test_find_wrong_payload_takes_any_bytes(data: bytes, place: int, byte: int) -> None:
    mutated = stored(b"abc", b"defg") + data
    mutated[place % len(mutated)] = byte
    assert -1 <= find_damaged_payload(mutated) < len(mutated)
