"""Reserved headers are told in one place, and refused to whoever sends."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import headstream as hs
from headstream.core.model import reserved
from headstream.errors import HeaderError

SOURCE = Path(reserved.__file__).parents[2]


def test_every_reserved_name_is_defined_in_one_file_and_told_in_its_docstring() -> None:
    told = reserved.__doc__ or ""
    names = [value for name, value in vars(reserved).items() if name.endswith("_HEADER")]
    assert len(names) == len(set(names)) >= 10
    assert all(f"    {name} " in told for name in names)
    elsewhere = []
    for path in SOURCE.rglob("*.py"):
        if path.name == "reserved.py" or path.parent.name == "batch":  # the kernels have names as numbers
            continue
        text = path.read_text(encoding="utf-8")
        if not any(name in text for name in names):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in names:
                elsewhere.append((path.name, node.value))
    assert elsewhere == []


@pytest.mark.parametrize("name", ["hs.", "hs.key", "hs.null", "hs.trace", "hs.kinds"])
def test_a_senders_own_reserved_name_is_refused_by_name(name: str) -> None:
    with pytest.raises(HeaderError, match=f"the header '{name}' is reserved"):
        reserved.check_unreserved(hs.Headers([("a", 1), (name, 1)]))
    with hs.connect("memory://") as log:
        log.create_topic("shop/orders")
        with log.producer("shop/orders") as producer, pytest.raises(HeaderError, match=f"the header '{name}' is reserved"):
            producer.send(b"x", headers={name: 1})


def test_a_senders_own_time_and_names_that_look_alike_are_taken() -> None:
    headers = hs.Headers({"hs.timestamp": 5, "hs": 1, "HS.key": 1, "trace.hs.key": 1})
    assert reserved.check_unreserved(headers) is headers
