"""Unit tests of headstream.interceptors.compression."""

from __future__ import annotations

import secrets
from typing import Any

import pytest

import headstream as hs
from headstream.core.model.topology import MAX_BATCH_BYTES
from headstream.interceptors import Compression
from tests.unit.interceptors.test_tracing import LONG, message


@pytest.mark.parametrize("algorithm", ["zlib", "zstd"])
def test_compression_gives_back_the_same_message(algorithm: str) -> None:
    compression = Compression(algorithm)
    before = message(key=b"k", headers=hs.Headers({"own": hs.uint8(1)}))
    sent = compression.on_send(before)
    assert len(sent.payload or b"") < len(LONG) / 5
    assert sent.headers["hs.compression"] == algorithm
    assert sent.headers["own"] == hs.uint8(1)
    assert Compression().on_receive(sent) == before


def test_compression_leaves_what_it_cannot_make_smaller() -> None:
    compression = Compression(min_bytes=0)
    for payload in (None, b"", b"short", secrets.token_bytes(1000)):
        assert compression.on_send(message(payload)) == message(payload)
    assert Compression(min_bytes=len(LONG) + 1).on_send(message()) == message()


def test_compression_neither_compresses_twice_nor_touches_plain_messages() -> None:
    compression = Compression()
    sent = compression.on_send(message())
    assert compression.on_send(sent) == sent
    assert compression.on_receive(message()) == message()


@pytest.mark.parametrize(
    "payload",
    [b"not zlib", Compression().on_send(message()).payload[:-1], (Compression().on_send(message()).payload or b"") + b"x"],  # type: ignore[index]
)
def test_a_damaged_compressed_payload_is_an_error(payload: bytes) -> None:
    damaged = message(payload, headers=hs.Headers({"hs.compression": "zlib"}))
    with pytest.raises(hs.InvalidInputError):
        Compression().on_receive(damaged)


@pytest.mark.parametrize("algorithm", ["zlib", "zstd"])
def test_a_small_payload_that_decompresses_to_too_much_is_refused(algorithm: str) -> None:
    bomb = Compression(algorithm).on_send(message(bytes(MAX_BATCH_BYTES + 1)))
    with pytest.raises(hs.InvalidInputError, match="decompresses to more than"):
        Compression().on_receive(bomb)


def test_an_unknown_compression_is_an_error_that_names_it() -> None:
    with pytest.raises(hs.InvalidInputError, match="'lzma'"):
        Compression().on_receive(message(headers=hs.Headers({"hs.compression": "lzma"})))


@pytest.mark.parametrize("options", [{"algorithm": "lzma"}, {"level": 10}, {"min_bytes": -1}])
def test_compression_refuses_options_out_of_range(options: dict[str, Any]) -> None:
    with pytest.raises(hs.InvalidOptionError):
        Compression(**options)
