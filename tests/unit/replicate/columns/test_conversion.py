"""Texts of numbers become the exact decimals of a column, or none."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from random import Random

import pyarrow as pa
import pytest

from headstream.replicate.columns.conversion import convert


def draw_text(random: Random) -> str:
    """A number with up to 50 digits before the point and 60 after it, with many zeros, and sometimes an exponent."""
    zeros = random.choice((5, 50, 200))
    whole, rest = ("".join(random.choices("0123456789", [zeros, *[1] * 9], k=random.randint(1, most))) for most in (50, 60))
    exponent = random.choice(("", "", f"e{random.randint(-60, 60)}"))
    return random.choice(("", "-", "+")) + random.choice((whole, f"{whole}.{rest}", f".{rest}")) + exponent


@pytest.mark.parametrize("seed", range(4))
def test_convert_gives_the_exact_decimal_or_none_whatever_the_digits_of_a_text(seed: int) -> None:
    random = Random(seed)
    for _ in range(100):
        precision = random.randint(1, 38)
        scale = random.randint(0, precision)
        texts = [draw_text(random) for _ in range(20)]
        found, bad = convert(pa.array(texts), pa.decimal128(precision, scale))
        for row, (text, value) in enumerate(zip(texts, found.to_pylist(), strict=True)):
            unscaled = Fraction(Decimal(text)) * 10**scale
            fits = unscaled.denominator == 1 and abs(unscaled) < 10**precision
            assert (row in bad) != fits, (text, precision, scale, value)
            assert not fits or Fraction(value) == Fraction(Decimal(text)), (text, precision, scale, value)
