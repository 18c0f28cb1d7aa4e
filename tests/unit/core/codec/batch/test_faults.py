"""The numbers of faults are the same for compiled and for interpreted code."""

from __future__ import annotations

import re
from pathlib import Path

from headstream.core.codec.batch import faults


def test_the_numbers_of_both_files_are_the_same() -> None:
    text = Path(faults.__file__).with_suffix(".pxd").read_text()
    compiled = {name: int(number) for name, number in re.findall(r"^    ([A-Z_]+) = (\d+)$", text, re.MULTILINE)}
    interpreted = {name: value for name, value in vars(faults).items() if name.isupper() and isinstance(value, int)}
    assert compiled == interpreted
    assert len(set(compiled.values())) == len(compiled) > 20
