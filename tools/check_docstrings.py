"""Reject lines of "Args:" that say no more than the name of the argument and its type, as in `topic: The topic.`

    tools/check_docstrings.py [--fix]

A line of an argument says what its type does not: unit, range, shape, the reason of the default, or who owns it.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

_EMPTY_WORDS: Final = frozenset(
    [
        "a",
        "all",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "by",
        "each",
        "every",
        "for",
        "from",
        "has",
        "have",
        "in",
        "is",
        "it",
        "its",
        "of",
        "on",
        "one",
        "or",
        "own",
        "present",
        "that",
        "the",
        "their",
        "them",
        "these",
        "this",
        "those",
        "to",
        "was",
        "what",
        "which",
        "whose",
        "with",
        "given",
        "use",
        "used",
        "asked",
    ]
)
"""Words that add nothing to a name."""
_SYNONYMS: Final = {
    "now": {"time"},
    "log": {"log"},
    "path": {"file", "path"},
    "directory": {"directory", "folder"},
    "text": {"text"},
    "name": {"name"},
    "number": {"number"},
    "settings": {"decided"},
    "config": {"configuration", "settings", "decided"},
    "count": {"many", "number", "how"},
}
_FACT: Final = re.compile(r"[0-9`,;:(]|\\b(us|ms|seconds?|bytes?|from|none|zero|UTC)\\b", re.IGNORECASE)
"""What makes a short text worth its line: a number, a unit, a name in code, a second clause."""
_MOST_EMPTY_WORDS: Final = 3
"""`The event loop.` or `Its file system.`: an article and two words are not more than a type."""
_ARGUMENT: Final = re.compile(r"^(\s+)(\*{0,2}\w+): (.+)$")


class _Line(NamedTuple):
    number: int
    until: int
    name: str
    text: str


def _stem(word: str) -> str:
    return word.lower().rstrip("s")


def _is_repetition(name: str, text: str) -> bool:
    """Return whether a text has no word besides those of the argument's name, or is an article and a short noun."""
    if re.match(r"(The|Its|Their|A|An) ", text) and len(text.split()) <= _MOST_EMPTY_WORDS and not _FACT.search(text):
        return True
    parts = {_stem(part) for part in name.strip("*").split("_")}
    for part in list(parts):
        parts |= {_stem(word) for word in _SYNONYMS.get(part, ())}
    words = re.findall(r"[A-Za-z]+|\S", text.rstrip("."))
    return all(word.isalpha() and (word.lower() in _EMPTY_WORDS or _stem(word) in parts) for word in words)


def _docstrings(tree: ast.Module) -> Iterator[ast.Constant]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and ast.get_docstring(node) is not None:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                yield first.value


def find_repetitions(lines: list[str], docstring: ast.Constant) -> tuple[list[_Line], tuple[int, int] | None]:
    """Return the lines of "Args:" that repeat a name, and the section's range of line numbers if nothing else is in it."""
    begin = docstring.lineno - 1
    end = docstring.end_lineno or docstring.lineno
    heads = [at for at in range(begin, end) if lines[at].strip() == "Args:"]
    if not heads:
        return [], None
    head = heads[0]
    indent = len(lines[head]) - len(lines[head].lstrip())
    at, found, others = head + 1, [], 0
    while at < end and lines[at].strip() and not lines[at].strip().startswith('"""') and _indent(lines[at]) > indent:
        until = at + 1
        while until < end and lines[until].strip() and _indent(lines[until]) > indent + 4:
            until += 1
        match = _ARGUMENT.match(lines[at])
        if match and until == at + 1 and not lines[at].rstrip().endswith('"""') and _is_repetition(match[2], match[3]):
            found.append(_Line(at, until, match[2], match[3]))
        else:
            others += 1
        at = until
    return found, (head, at) if found and not others else None


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _without(lines: list[str], found: list[_Line], section: tuple[int, int] | None) -> list[str]:
    """Return a file's lines without some arguments, and without the section if it becomes empty."""
    if section is not None:
        begin, until = section
        if not lines[begin - 1].strip():
            begin -= 1
        return lines[:begin] + lines[until:]
    gone = {line.number for line in found}
    return [line for at, line in enumerate(lines) if at not in gone]


def main() -> int:
    """Print each breach and return 1 if there is one; with `--fix`, remove the lines instead."""
    is_fixing = "--fix" in sys.argv[1:]
    breaches = 0
    for path in sorted(Path("src").rglob("*.py")):
        lines = path.read_text(encoding="utf-8").split("\n")
        for docstring in sorted(_docstrings(ast.parse("\n".join(lines))), key=lambda node: -node.lineno):
            found, section = find_repetitions(lines, docstring)
            breaches += len(found)
            if is_fixing and found:
                lines = _without(lines, found, section)
                continue
            for line in found:
                print(f"{path}:{line.number + 1}: {line.name}: {line.text}: only repeats the name")  # noqa: T201
        if is_fixing:
            path.write_text("\n".join(lines), encoding="utf-8")
    return 1 if breaches and not is_fixing else 0


if __name__ == "__main__":
    sys.exit(main())
