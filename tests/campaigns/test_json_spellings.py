"""Spellings of every type in JSON: whichever way a source writes a value, the table has that value, or the message is dead.

The model computes with fractions and digits of text, never with the conversions that it judges.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from headstream.replicate.codec import ColumnMetadata, Lineage, TableMetadata, data_schema
from tests.support.replicate.replicate_messages import make_decoder, make_table, raw_messages, reasons_of, rows_of

DEAD = object()
"""What the model answers where a column cannot hold what is written."""
_BITS = {"INT1": 8, "INT2": 16, "INT4": 32, "INT8": 64, "UINT1": 8, "UINT2": 16, "UINT4": 32, "UINT8": 64}
_COLUMNS = (
    *((name, 0, 0) for name in _BITS),
    ("NUMERIC", 20, 2),
    ("NUMERIC", 38, 38),
    ("NUMERIC", 50, 3),
    ("NUMERIC", 0, 0),
    *((name, 0, 0) for name in ("REAL4", "REAL8", "BOOLEAN", "BYTES", "STRING", "DATE", "TIME", "DATETIME")),
)


def draw_number(random: Random) -> str:
    """A number as JSON has it: of up to 45 digits, near the limits of a type, or with an exponent."""
    chance = random.random()
    if chance < 0.3:
        number = str((random.choice((1, -1)) << random.choice((7, 8, 15, 16, 31, 32, 53, 63, 64, 127))) + random.randint(-2, 2))
    else:
        number = random.choice(("", "-")) + str(random.randrange(10 ** random.randint(1, 20)))
    if chance > 0.4:
        number += "." + "".join(random.choices("0123456789", weights=[9, *[1] * 9], k=random.choice((3, 25, 60))))
    if chance > 0.8:
        number += (
            random.choice("eE") + random.choice(("", "+", "-")) + str(random.choice((0, 1, 2, 5, 20, 38, 45, 310, 400, 10**9)))
        )
    return random.choice((number, number, "-0", "0.0", "1.0", "1.50"))


def pad(random: Random, text: str) -> str:
    """A text as a sloppy source writes it: with spaces, and numbers with a plus."""
    if random.random() < 0.2 and text[:1].isdigit() and "-" not in text[1:5]:
        text = f"+{text}"
    return random.choice(("", "", " ", "\t")) + text + random.choice(("", "", " "))


def model_number(kind: str, precision: int, scale: int, text: str) -> Any:
    """What a column of numbers has for the text of a JSON number."""
    digits = Decimal(text.strip())
    if kind in ("REAL4", "REAL8"):
        number = float(text)
        if kind == "REAL4":
            with np.errstate(over="ignore"):
                number = float(np.float32(number))
        return DEAD if math.isinf(number) else number
    if not digits:
        digits = Decimal(0)
    if abs(digits.adjusted()) > 300:
        return DEAD
    value = Fraction(digits)
    if kind in _BITS:
        signed = kind.startswith("I")
        low, high = (-(1 << _BITS[kind] - 1), 1 << _BITS[kind] - 1) if signed else (0, 1 << _BITS[kind])
        return int(value) if value.denominator == 1 and low <= value < high else DEAD
    if kind == "BOOLEAN":
        return bool(value) if value in (0, 1) else DEAD
    if not 1 <= precision <= 38:  # text in one spelling
        whole, _, rest = f"{digits.copy_abs():f}".partition(".")
        whole, rest = whole.lstrip("0") or "0", rest.rstrip("0").ljust(scale, "0")
        return ("-" if value < 0 else "") + (f"{whole}.{rest}" if rest else whole)
    unscaled = value * 10**scale
    return digits if unscaled.denominator == 1 and abs(unscaled) < 10**precision else DEAD


def draw_scalar(random: Random, kind: str, precision: int, scale: int) -> tuple[str, Any]:
    """A spelling of a number or logical as JSON text, and what the table has for it."""
    if random.random() < 0.1:
        word = random.choice(("NaN", "Infinity", "-Infinity", "0x10", "1_000", "", "five", "1,5"))
        if kind in ("REAL4", "REAL8") and word[-2:] in ("aN", "ty"):
            return json.dumps(word), float(word)
        is_text = kind == "NUMERIC" and not 1 <= precision <= 38
        return json.dumps(word), word if is_text else DEAD
    if kind == "BOOLEAN" and random.random() < 0.5:
        logical = random.choice((True, False))
        spelled = json.dumps(logical)
        return (json.dumps(random.choice((spelled, spelled.upper()))) if random.random() < 0.5 else spelled), logical
    text = draw_number(random)
    while kind == "NUMERIC" and abs(Decimal(text).adjusted()) > 300:  # beyond every database's numbers
        text = draw_number(random)
    expected = model_number(kind, precision, scale, text)
    return (json.dumps(pad(random, text)) if random.random() < 0.5 else text), expected


def draw_time(random: Random) -> tuple[str, str]:
    """A time of day with 0 to 9 digits of its second, and its nine digits."""
    fraction = "".join(random.choices("0123456789", weights=[9, *[1] * 9], k=random.randint(0, 9)))
    text = f"{random.randrange(24):02d}:{random.randrange(60):02d}:{random.randrange(60):02d}"
    return (f"{text}.{fraction}" if fraction else text), fraction.ljust(9, "0")


def model_fraction(nine: str) -> str:
    """The digits of a second of a time that is stored as text: 0, 3, 6 or as many as it needs."""
    needed = nine.rstrip("0")
    return f".{needed.ljust(3 if len(needed) <= 3 else 6, '0')}" if needed else ""


def draw_datetime(random: Random) -> tuple[str, datetime, str]:
    """A date with a time in any zone, its second in UTC, and the nine digits after it."""
    time, nine = draw_time(random)
    day = date(random.choice((1600, 1969, 1970, 2024, 9998)), random.randint(1, 12), random.randint(1, 28))
    minutes = random.choice((None, None, None, 0, 120, -330, 840))
    schema_store = ""
    if minutes is not None:
        hours, rest = divmod(abs(minutes), 60)
        spelled = [f"{hours:02d}:{rest:02d}", f"{hours:02d}{rest:02d}", *([f"{hours:02d}"] if not rest else [])]
        schema_store = random.choice(("Z", "z")) if minutes == 0 else ("-" if minutes < 0 else "+") + random.choice(spelled)
    moment = datetime.fromisoformat(f"{day}T{time[:8]}") - timedelta(minutes=minutes or 0)
    return f"{day}{random.choice('T ')}{time}{schema_store}", moment, nine


def draw_other(random: Random, kind: str) -> tuple[str, Any]:
    """A spelling of a text, bytes or a date, and what the table has for it."""
    if kind == "BYTES":
        data = random.randbytes(random.randint(0, 6))
        if random.random() < 0.3:
            padded = base64.b64encode(data + b"\xfb" * (4 - len(data) % 3)).decode()
            return json.dumps(padded), DEAD
        text = random.choice((data.hex(), data.hex().upper()))
        return random.choice(((json.dumps(text), data), (json.dumps(f"{text}a"), DEAD)))
    if kind == "DATE":
        day = date(random.choice((1, 1600, 1969, 2024, 9999)), random.randint(1, 12), random.randint(1, 28))
        return random.choice(((json.dumps(f" {day} "), day), (json.dumps(f"{day} 10:00:00"), DEAD), ("20240101", DEAD)))
    if kind == "TIME":
        text, nine = draw_time(random)
        return json.dumps(text), text[:8] + model_fraction(nine)
    text = pad(random, random.choice(("ünï", "NaN", "007", "true", "\u0000", "1e5")))
    return random.choice(
        ((json.dumps(text), text), ("true", "true"), ("1.50", "1.50"), ("123456789012345678901", "123456789012345678901"))
    )


def draw_cell(random: Random, kind: str, precision: int, scale: int) -> tuple[str, Any]:
    """A spelling of a value of a type as JSON text, and what the table has for it."""
    if random.random() < 0.05:
        return random.choice((("null", None), ("[1]", DEAD), ('{"a": 1.5}', DEAD)))
    if kind == "DATETIME":
        text, moment, nine = draw_datetime(random)
        return json.dumps(random.choice((text, f" {text}"))), moment.replace(microsecond=int(nine[:6]), tzinfo=UTC)
    is_scalar = kind in _BITS or kind in ("NUMERIC", "REAL4", "REAL8", "BOOLEAN")
    return draw_scalar(random, kind, precision, scale) if is_scalar else draw_other(random, kind)


def same(found: Any, expected: Any) -> bool:
    """Whether a stored value is the expected one, bit by bit for a double."""
    if isinstance(expected, float) and isinstance(found, float):
        return (math.isnan(found) and math.isnan(expected)) or (
            found == expected and math.copysign(1, found) == math.copysign(1, expected)
        )
    return bool(found == expected) and (found is None) == (expected is None)


def check_cells(directory: Path, random: Random, count: int) -> None:
    """Write `count` messages with one spelled value each, and compare what becomes of them with the model."""
    columns = [ColumnMetadata("id", 1, "INT4", primary_key_position=1)]
    columns += [ColumnMetadata(f"c{n}", n + 2, kind, 0, p, s) for n, (kind, p, s) in enumerate(_COLUMNS)]
    table = TableMetadata("E" * 32, Lineage("s", "t", "shop", "kit"), tuple(columns), data_schema(columns, logical_types=False))
    decoder = make_decoder(directory, table)
    values, wanted = [], []
    for number in range(count):
        place = random.randrange(len(_COLUMNS))
        spelled, expected = draw_cell(random, *_COLUMNS[place])
        headers = json.dumps({"operation": "INSERT", "changeSequence": f"{number + 1:035d}", "timestamp": number})
        message = f'{{"data": {{"id": {number}, "c{place}": {spelled}}}, "beforeData": null, "headers": {headers}}}'
        values.append(
            f'{{"magic": "atMSG", "type": "DT", "headers": null, "messageSchemaId": "{"E" * 32}", "message": {message}}}'.encode()
        )
        wanted.append((place, spelled, expected))
    decoded = decoder.decode(raw_messages(values))
    rows, dead = {row["id"]: row for row in rows_of(decoded)}, reasons_of(decoded)
    assert len(rows) + len(dead) == count
    for number, (place, spelled, expected) in enumerate(wanted):
        found = DEAD if number in dead else rows[number][f"c{place}"]
        assert same(found, expected), f"{_COLUMNS[place]} {spelled}: {found!r} ({dead.get(number)}), not {expected!r}"


def check_datetimes(directory: Path, random: Random, datetimes: str) -> None:
    """Write datetimes into a key column: what the column cannot hold is dead, and equal times have one spelling."""
    table = make_table(ColumnMetadata("at", 1, "DATETIME", primary_key_position=1))
    decoder = make_decoder(directory, table, settings={"datetimes": datetimes})
    values: list[bytes] = []
    wanted: list[str | datetime | None] = []
    for number in range(60):
        text, moment, nine = draw_datetime(random)
        headers = {"operation": "INSERT", "changeSequence": f"{number + 1:035d}"}
        message = {"data": {"at": text}, "beforeData": None, "headers": headers}
        values.append(json.dumps({"magic": "atMSG", "type": "DT", "messageSchemaId": "E" * 32, "message": message}).encode())
        if datetimes == "text":
            wanted.append(f"{moment}.{nine[:6]}{nine[6:].rstrip('0')}")
        elif nine[6:] == "000":
            wanted.append(moment.replace(microsecond=int(nine[:6]), tzinfo=UTC if datetimes == "utc" else None))
        else:
            wanted.append(None)
    decoded = decoder.decode(raw_messages(values))
    dead = reasons_of(decoded)
    assert sorted(dead) == [number for number, expected in enumerate(wanted) if expected is None]
    assert all("more precise than a microsecond" in reason for reason in dead.values())
    assert [row["at"] for row in rows_of(decoded)] == [expected for expected in wanted if expected is not None]


def check(directory: Path, seed: int, check_one: Callable[..., None], *settings: Any) -> None:
    random = Random(seed)
    try:
        check_one(directory / str(seed), random, *settings)
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}") from error


@pytest.mark.parametrize("count", [1, 30, 400])
def test_decoder_stores_the_value_of_every_spelling_in_json(tmp_path: Path, count: int) -> None:
    for seed in range({1: 20, 30: 6, 400: 2}[count]):
        check(tmp_path, seed, check_cells, count)


@pytest.mark.parametrize("datetimes", ["utc", "ntz", "text"])
def test_decoder_keeps_datetimes_of_a_key_apart_or_refuses_them(tmp_path: Path, datetimes: str) -> None:
    for seed in range(5):
        check(tmp_path, seed, check_datetimes, datetimes)


@pytest.mark.soak
def test_decoder_stores_the_value_of_every_spelling_in_json_for_long(tmp_path: Path) -> None:
    for seed in range(100, 2000):
        check(tmp_path, seed, check_cells, Random(seed).choice((1, 5, 50, 300)))
        check(tmp_path, seed + 1_000_000, check_datetimes, ("utc", "ntz", "text")[seed % 3])
