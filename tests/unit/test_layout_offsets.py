"""Byte positions are constants beside the layout they belong to: no literals, and the same numbers for compiled code."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

_SRC: Final = Path(__file__).parents[2] / "src"
_FOLDERS: Final = "core/codec", "core/wire", "log", "server/iggy/fast_path", "server/kafka", "replicate/codec"
_WIDTHS: Final = 0, 1, 2, 3, 4, 8
"""Literals that are read as the width of the number before a field, or as the place in a character of UTF-8."""

_POSITIONS: Final = {
    **dict.fromkeys(("load16", "load32", "load64", "load64_signed", "load_float32"), (1,)),
    **dict.fromkeys(("store16", "store32", "store64", "store64_signed", "store_float32", "store_float64", "fill"), (1,)),
    **dict.fromkeys(("copy", "equal", "store_uuid"), (1, 3)),
    **dict.fromkeys(("unpack_from", "pack_into"), (0, 1)),
    **dict.fromkeys(("crc32_from", "crc32c_from", "xxh3_from"), (1, 2)),
}
"""The arguments of functions that are byte positions."""

_ALLOWED: Final = {
    "core/codec/batch/from_columns/keys_and_ids.py": "the hyphens of a UUID's text, and the lanes of a hash",
    "core/codec/batch/stored/siphash.py": "the two halves of a seed",
    "core/codec/batch/to_columns/variant.py": "a byte and the size of a string",
    "core/codec/kip82/headers.py": "the size and the type of a value",
    "core/codec/uncompiled_primitives.py": "the groups of a UUID's text",
    "replicate/codec/avro/plan.py": "a field of a tuple",
    "replicate/codec/avro/uncompiled_primitives.py": "a decimal of 16 bytes",
    "replicate/codec/envelope.py": "the framing of a schema registry: a byte and an id",
}
"""Files whose literals are no fields of a layout."""


def _twins() -> list[str]:
    found = [path for path in sorted(_SRC.rglob("*.pxd")) if "cdef enum" in path.read_text(encoding="utf-8")]
    return [".".join(path.relative_to(_SRC).with_suffix("").parts) for path in found if path.with_suffix(".py").exists()]


def _literals(node: ast.AST | None) -> Iterator[ast.Constant]:
    """Iterate over the integers that an expression adds or subtracts."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int) and abs(node.value) not in _WIDTHS:
        yield node
    elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        yield from _literals(node.left)
        yield from _literals(node.right)


def _positions(node: ast.AST) -> Iterator[ast.AST | None]:
    """Iterate over the byte positions in a call or a subscript; the end of `[:5]` is a size, one of text most often."""
    if isinstance(node, ast.Call):
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        yield from (node.args[i] for i in _POSITIONS.get(name, ()) if i < len(node.args))
    elif not isinstance(node, ast.Subscript) or isinstance(node.value, ast.Call):
        return  # the result of a call is a tuple, or text
    elif isinstance(node.slice, ast.Slice):
        yield node.slice.lower
        if node.slice.lower is not None or isinstance(node.slice.upper, ast.BinOp):
            yield node.slice.upper
    elif isinstance(node.slice, (ast.BinOp, ast.Constant)):
        yield node.slice


def literal_offsets(text: str) -> list[str]:
    """Return the lines of a module with a literal byte position."""
    found = {each.lineno for node in ast.walk(ast.parse(text)) for at in _positions(node) for each in _literals(at)}
    lines = text.splitlines()
    return [f"{number}: {lines[number - 1].strip()}" for number in sorted(found)]


def test_kernels_and_codecs_have_no_literal_offsets() -> None:
    paths = [path for folder in _FOLDERS for path in sorted((_SRC / "headstream" / folder).rglob("*.py"))]
    found = {
        path.relative_to(_SRC / "headstream").as_posix(): literal_offsets(path.read_text(encoding="utf-8")) for path in paths
    }
    assert {path: lines for path, lines in found.items() if lines and path not in _ALLOWED} == {}
    assert [path for path in _ALLOWED if not found[path]] == []


@pytest.mark.parametrize(
    "line", ["c.store32(q, to + 17, n)", "x = p[at + 45]", "x = data[16:24]", "x = view[at : at + 12]", "S.unpack_from(data, 61)"]
)
def test_literal_offsets_finds_a_position(line: str) -> None:
    assert literal_offsets(line) == [f"1: {line}"]


@pytest.mark.parametrize("line", ["c.store32(q, to + layout.ID, 17)", "x = p[8 * (i + 1)]", "x = text[:40]", "x = p[at - 4]"])
def test_literal_offsets_leaves_out_widths_and_names(line: str) -> None:
    assert literal_offsets(line) == []


@pytest.mark.parametrize("module", _twins())
def test_numbers_for_compiled_code_are_those_of_the_module(module: str) -> None:
    text = (_SRC / (module.replace(".", "/") + ".pxd")).read_text(encoding="utf-8")
    compiled = {name: int(number) for name, number in re.findall(r"\b([A-Z][A-Z0-9_]+) = (-?\d+)", text)}
    interpreted = vars(importlib.import_module(module))
    assert compiled == {name: interpreted.get(name) for name in compiled}
    assert compiled
