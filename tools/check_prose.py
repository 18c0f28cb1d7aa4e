"""Reject phrases that a stranger stumbles over, by the rules of prose.toml: in pages, help texts, docstrings and messages.

    tools/check_prose.py

It reads prose alone: code blocks, code in backticks and addresses of links are left out.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import click
from markdown_it import MarkdownIt

from headstream.cli.main import cli

__all__ = ["RULES", "Finding", "Rule", "find_breaches", "main", "read_texts"]

_ROOT: Final = Path(__file__).parents[1]
_FILE: Final[dict[str, Any]] = tomllib.loads((Path(__file__).parent / "prose.toml").read_text(encoding="utf-8"))
_LOG_METHODS: Final = frozenset(["debug", "info", "warning", "error", "exception"])
_CODE: Final = re.compile(r"`+[^`]*`+")


class Rule(NamedTuple):
    """A rule of prose.toml."""

    name: str
    pattern: re.Pattern[str]
    where: frozenset[str]
    instead: str
    bad: str
    good: str


class Finding(NamedTuple):
    """A phrase that breaks a rule."""

    place: str
    rule: Rule
    phrase: str


RULES: Final = tuple(
    Rule(
        each["name"],
        re.compile(each["pattern"], re.IGNORECASE),
        frozenset(each["where"]),
        *map(each.get, ("instead", "bad", "good")),
    )
    for each in _FILE["rules"]
)


def find_breaches(where: str, place: str, text: str) -> Iterator[Finding]:
    """Yield the phrases of a text that break a rule, except those that prose.toml lists as exceptions.

    Args:
        where: `docs`, `help`, `options`, `docstrings` or `messages`; rules for `help` hold for `options` and `messages` too.
        place: A file with a line, or a command with its option.
    """
    text = _CODE.sub("`", text)
    scopes = {where, "help"} if where in {"options", "messages"} else {where}
    for rule in RULES:
        if not rule.where & scopes:
            continue
        for match in rule.pattern.finditer(text):
            around = text[max(0, match.start() - 40) : match.end() + 40]
            if not any(each["rule"] == rule.name and each["text"] in around for each in _FILE["exceptions"]):
                yield Finding(place, rule, match[0])


def _pages() -> Iterator[tuple[str, str, str]]:
    parser = MarkdownIt("commonmark").enable("table")
    pages = [_ROOT / "README.md", _ROOT / "CONTRIBUTING.md", *sorted((_ROOT / "docs").glob("*.md"))]
    for page in (page for page in pages if page.name != "api.md"):  # made from docstrings
        for token in parser.parse(page.read_text(encoding="utf-8")):
            if token.type == "inline" and token.children is not None:
                kept = (f"`{child.content}`" if child.type == "code_inline" else child.content or " " for child in token.children)
                yield "docs", f"{page.relative_to(_ROOT)}:{(token.map or [0])[0] + 1}", "".join(kept)


def _helps(command: click.Command, context: click.Context) -> Iterator[tuple[str, str, str]]:
    yield "help", context.command_path, command.help or command.short_help or ""
    for option in command.params:
        if isinstance(option, click.Option) and option.help and not option.hidden:
            yield "options", f"{context.command_path} {option.opts[0]}", option.help
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if child is not None:
                yield from _helps(child, click.Context(child, context, name))


def _sources() -> Iterator[tuple[str, str, str]]:
    """Yield the docstrings of the source, and the texts of its errors and log lines."""
    for path in sorted((_ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            place = f"{path.relative_to(_ROOT)}:{getattr(node, 'lineno', 1)}"
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
                yield "docstrings", place, ast.get_docstring(node) or ""
            elif isinstance(node, ast.Call) and _is_message(node.func):
                yield "messages", place, " ".join(_texts(node))


def _texts(node: ast.AST) -> Iterator[str]:
    """Yield the texts in a call, with `{…}` for each value that is put into one."""
    if isinstance(node, ast.JoinedStr):
        yield "".join(str(each.value) if isinstance(each, ast.Constant) else "{…}" for each in node.values)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    else:
        for child in ast.iter_child_nodes(node):
            yield from _texts(child)


def _is_message(function: ast.expr) -> bool:
    if isinstance(function, ast.Attribute):
        return function.attr in _LOG_METHODS and "LOG" in ast.unparse(function.value).upper()
    return isinstance(function, ast.Name) and function.id.endswith("Error")


def read_texts() -> Iterator[tuple[str, str, str]]:
    """Yield where each text is used (as for find_breaches()), its place, and the text."""
    yield from (*_pages(), *_helps(cli, click.Context(cli, info_name="headstream")), *_sources())


def main() -> int:
    """Print each breach and return 1 if there is one."""
    found = [finding for where, place, text in read_texts() for finding in find_breaches(where, place, " ".join(text.split()))]
    for finding in found:
        print(f"{finding.place}: {finding.phrase!r} ({finding.rule.name}): write {finding.rule.instead}")  # noqa: T201
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
