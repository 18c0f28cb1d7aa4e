"""docs/architecture.md, docs/glossary.md and docs/decisions: what they name exists, and no part is missing."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src/headstream"
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
DECISIONS = ROOT / "docs/decisions"
INDEX = (DECISIONS / "index.md").read_text(encoding="utf-8")
PACKAGES = sorted(path.parent.name for path in SRC.glob("*/__init__.py"))
SYMBOLS = sorted(set(re.findall(r"`([\w/]+\.py):([\w.]+)`", PAGE)))
FILES = sorted(set(re.findall(r"`([\w/]+\.py)`", PAGE)) | {path for path, _ in SYMBOLS})
DECISION_FILES = sorted(path for path in DECISIONS.glob("*.md") if path.name != "index.md")
PARTS = ("## Context", "## Decision", "## Evidence")


@functools.cache
def symbols_of(path: str) -> frozenset[str]:
    """Return the names that a module defines: `name`, `Class.name`."""
    module = ast.parse((SRC / path).read_text(encoding="utf-8"))
    names = set(names_in(module.body))
    for node in module.body:
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{name}" for name in names_in(node.body)}
    return frozenset(names)


def names_in(body: list[ast.stmt]) -> list[str]:
    found = [node.name for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)]
    found += [node.target.id for node in body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)]
    return found + [
        each.id for node in body if isinstance(node, ast.Assign) for each in node.targets if isinstance(each, ast.Name)
    ]


def test_architecture_page_names_files_that_exist() -> None:
    assert [path for path in FILES if not ((SRC / path).is_file() or (ROOT / path).is_file())] == []
    assert len(FILES) > 50


def test_architecture_page_names_symbols_that_exist() -> None:
    assert [f"{path}:{name}" for path, name in SYMBOLS if name not in symbols_of(path)] == []
    assert len(SYMBOLS) > 40


def test_architecture_page_names_directories_that_exist() -> None:
    named = set(re.findall(r"`((?:\w+/)+\w*)`", PAGE))
    assert [path for path in sorted(named) if not any((place / path).is_dir() for place in (SRC, ROOT))] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_architecture_page_describes_each_top_package(package: str) -> None:
    section = re.search(rf"^### {package}\n(.*?)(?=^##)", PAGE, re.MULTILINE | re.DOTALL)
    assert section is not None
    lines = [line for line in section[1].splitlines() if line]
    assert [line.split(":")[0] for line in lines] == ["- For", "- Interface", "- May import", "- Read first"]
    read_first = re.findall(r"`([\w/]+\.py)`", lines[3])
    assert len(read_first) == 3
    assert all(path.startswith(f"{package}/") for path in read_first)


@pytest.mark.parametrize("package", PACKAGES)
def test_architecture_page_names_the_packages_that_each_package_imports(package: str) -> None:
    line = re.search(rf"^### {package}\n(?:- (?!May).*\n|\n)*- May import: (.*)$", PAGE, re.MULTILINE)
    assert line is not None
    allowed = line[1].partition("; not ")[0]
    excluded = set(re.findall(r"`(\w+)`", line[1])) - set(re.findall(r"`(\w+)`", allowed))
    if allowed.startswith("every"):
        excluded |= set(re.findall(r"`(\w+)`", allowed))
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (SRC / package).rglob("*.py"))
    imported = set(re.findall(r"^ *from headstream\.(\w+)", sources, re.MULTILINE)) & set(PACKAGES) - {package}
    assert not imported & excluded
    assert allowed.startswith("every") or imported == set(re.findall(r"`(\w+)`", allowed))


def test_architecture_page_has_at_most_two_pages() -> None:
    assert len(PAGE.split()) < 1_400


@pytest.mark.parametrize("path", DECISION_FILES, ids=lambda path: path.stem)
def test_decision_has_a_title_a_date_and_its_parts(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert re.match(r"# \S.*\n\nDate: 20\d\d-(0[1-9]|1[0-2])\n\n## Context\n", text)
    assert tuple(re.findall(r"^## .+$", text, re.MULTILINE)) == PARTS
    bodies = re.split(r"^## .+$", text, flags=re.MULTILINE)[1:]
    assert [len(body.split()) >= fewest for body, fewest in zip(bodies, (5, 5, 1), strict=True)] == [True] * 3


def test_index_has_each_decision_once_with_its_title() -> None:
    rows = re.findall(r"^\| \[(.+)\]\(([\w-]+\.md)\) \|", INDEX, re.MULTILINE)
    titles = {path.name: path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ") for path in DECISION_FILES}
    assert {file: title for title, file in rows} == titles
    assert len(rows) == len(titles) > 50


def test_decisions_name_files_that_exist() -> None:
    texts = {path.name: path.read_text(encoding="utf-8") for path in DECISION_FILES}
    named = {(page, path) for page, text in texts.items() for path in re.findall(r"`((?:\w+/)+[\w.]+\.\w+)`", text)}
    missing = [each for each in sorted(named) if not ((ROOT / each[1]).is_file() or (SRC / each[1]).is_file())]
    assert missing == []
    assert len(named) > 50
