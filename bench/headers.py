"""Headers, side by side in one run: ours as values, plain dicts of bytes, typed helpers written by hand; results/headers.txt.

build     three headers (a string, an int, a bool) from plain values, and their bytes
open      the bytes of three headers, and the three values out of them
peek      the bytes of three headers, and one value
pass      messages that nobody looks into, with 0, 3 and 20 headers: decoded and, from 0 of them on, sent again

The plain dict holds bytes already encoded by its user (as Kafka's clients want them): it types nothing, and loses repeats.
The helpers by hand are what people write on top of it: a function a type, a letter for the type before each value.
"""

from __future__ import annotations

import argparse
import json
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import headstream as hs
from headstream.core.codec.binary import decode_polled, encode_polled
from headstream.core.codec.kip82 import STRICT

sys.path.insert(0, str(Path(__file__).parents[1]))
from bench.machine import Report

LOOPS: Final = 20_000
ROUNDS: Final = 7
MESSAGES: Final = 2000
PLAIN: Final[dict[str, Any]] = {"source": "web", "attempt": 3, "express": True}

Bytes = list[tuple[str, bytes]]


# -- what people write by hand ---------------------------------------------------------------------------------------


def put_string(headers: Bytes, key: str, value: str) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{key} is no str")
    headers.append((key, b"s" + value.encode()))


def put_long(headers: Bytes, key: str, value: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{key} is no int")
    headers.append((key, b"l" + struct.pack(">q", value)))


def put_bool(headers: Bytes, key: str, value: bool) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"{key} is no bool")
    headers.append((key, b"b" + (b"\x01" if value else b"\x00")))


def get_string(headers: Bytes, key: str) -> str:
    return _last(headers, key, b"s").decode()


def get_long(headers: Bytes, key: str) -> int:
    value: int = struct.unpack(">q", _last(headers, key, b"l"))[0]
    return value


def get_bool(headers: Bytes, key: str) -> bool:
    return _last(headers, key, b"b") != b"\x00"


def _last(headers: Bytes, key: str, kind: bytes) -> bytes:
    for name, value in reversed(headers):
        if name == key:
            if value[:1] != kind:
                raise TypeError(f"{key} is of type {value[:1]!r}")
            return value[1:]
    raise KeyError(key)


def to_block(pairs: Any) -> bytes:
    """The framing that a client of Kafka does in C, in Python: lengths and bytes."""
    parts: list[bytes] = []
    for key, value in pairs:
        name = key.encode()
        parts += (len(name).to_bytes(4, "big"), name, len(value).to_bytes(4, "big"), value)
    return b"".join(parts)


def from_block(block: bytes) -> Bytes:
    pairs, at = [], 0
    while at < len(block):
        size = int.from_bytes(block[at : at + 4], "big")
        key = block[at + 4 : at + 4 + size].decode()
        at += 4 + size
        size = int.from_bytes(block[at : at + 4], "big")
        pairs.append((key, block[at + 4 : at + 4 + size]))
        at += 4 + size
    return pairs


# -- the cases -------------------------------------------------------------------------------------------------------


def build_by_hand() -> bytes:
    headers: Bytes = []
    put_string(headers, "source", "web")
    put_long(headers, "attempt", 3)
    put_bool(headers, "express", True)
    return to_block(headers)


def build_plain() -> bytes:
    return to_block({"source": b"web", "attempt": b"3", "express": b"true"}.items())


def build_proposal() -> bytes:
    return hs.Headers().put_string("source", "web").put_long("attempt", 3).put_boolean("express", True).as_bytes()


BY_HAND: Final = build_by_hand()
IN_DICT: Final = build_plain()
OURS: Final = hs.Headers(PLAIN).as_bytes()
TYPED: Final = hs.Headers(PLAIN).as_bytes(STRICT)


def open_by_hand() -> object:
    headers = from_block(BY_HAND)
    return get_string(headers, "source"), get_long(headers, "attempt"), get_bool(headers, "express")


def open_dict() -> object:
    headers = dict(from_block(IN_DICT))
    return headers["source"].decode(), int(headers["attempt"]), headers["express"] == b"true"


def open_ours(block: bytes, layout: Any) -> object:
    headers = hs.Headers.from_bytes(block, layout) if layout is not None else hs.Headers.from_bytes(block)
    return headers["source"].value, headers["attempt"].value, headers["express"].value


def open_json() -> object:
    headers = json.loads(b'{"source": "web", "attempt": 3, "express": true}')
    return headers["source"], headers["attempt"], headers["express"]


CASES: Final[dict[str, dict[str, Callable[[], object]]]] = {
    "build": {
        "a dict of bytes": build_plain,
        "helpers by hand": build_by_hand,
        "Headers(dict)": lambda: hs.Headers(PLAIN).as_bytes(),
        "Headers().put_...": build_proposal,
        "Headers(dict), KIP-82": lambda: hs.Headers(PLAIN).as_bytes(STRICT),
    },
    "open": {
        "a dict of bytes": open_dict,
        "helpers by hand": open_by_hand,
        "JSON, for comparison": open_json,
        "Headers": lambda: open_ours(OURS, None),
        "Headers, KIP-82": lambda: open_ours(TYPED, STRICT),
    },
    "peek": {
        "a dict of bytes": lambda: dict(from_block(IN_DICT))["source"].decode(),
        "helpers by hand": lambda: get_string(from_block(BY_HAND), "source"),
        "Headers": lambda: hs.Headers.from_bytes(OURS)["source"].value,
        "Headers, KIP-82": lambda: hs.Headers.from_bytes(TYPED, STRICT)["source"].value,
    },
}


def time_each(cases: dict[str, Callable[[], object]], loops: int) -> dict[str, float]:
    """Return the best nanoseconds of the processor a call of each, taken in turns so that a busy machine hits all alike."""
    best = dict.fromkeys(cases, float("inf"))
    for _ in range(ROUNDS):
        for name, case in cases.items():
            begun = time.process_time_ns()
            for _ in range(loops):
                case()
            best[name] = min(best[name], (time.process_time_ns() - begun) / loops)
    return best


def make_stored(count: int) -> bytes:
    headers = hs.Headers([(f"header-{n}", f"value-{n}" if n % 2 else n) for n in range(count)])
    return encode_polled(hs.Message(payload=bytes(100), headers=headers, offset=n, timestamp=1) for n in range(MESSAGES))


def forward(stored: bytes) -> bytes:
    return encode_polled(decode_polled(stored))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-file", action="store_true", help="print only")
    arguments = parser.parse_args()
    with Report("headers", write=not arguments.no_file) as report:
        for title, cases in CASES.items():
            report.line(f"\n{title:<34}{'ns':>8}   against helpers by hand")
            taken = time_each(cases, LOOPS)
            for name, ns in taken.items():
                report.line(f"  {name:<32}{ns:>8.0f}   {ns / taken['helpers by hand']:.2f}")
        stored = {count: make_stored(count) for count in (0, 3, 20)}
        for title, work in (("pass: decode", decode_polled), ("pass: decode and encode", forward)):
            report.line(f"\n{title:<34}{'ns a message':>12}   against 0 headers")
            taken = time_each({f"{n} headers": lambda data=data, work=work: work(data) for n, data in stored.items()}, 3)  # type: ignore[misc]
            for name, ns in taken.items():
                report.line(f"  {name:<32}{ns / MESSAGES:>12.0f}   {ns / taken['0 headers']:.2f}")


if __name__ == "__main__":
    main()
