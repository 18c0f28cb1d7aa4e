"""A hook of mkdocs: what the site has beside docs/.

    commands.md           the help of every command of `headstream`
    settings.md           every setting and option, from the code
    metrics.md            every metric, from the code
    <old page>.html       a redirect for each page that was merged into another one (`extra.moved` of mkdocs.yml)
    source/<path>.txt     files of the repository that pages link to (`../examples/audit_headers.py`); a directory is a list

The site is complete by itself: it links to nothing outside.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

from headstream.cli.main import cli

sys.path.insert(0, str(Path(__file__).parents[1]))
from tools import metrics_page, settings_page

_ROOT = Path(__file__).parents[1]
_LINK = re.compile(r"\]\(\.\./([^)#\s]+)(#[^)\s]*)?\)")
_WIDTH = 120
_COMMANDS = """# Commands

For operators and authors of scripts: the options of every command of `headstream`.
[JSON output of commands](cli-output.md) describes the output of `--output json`.
"""
_REDIRECT = """<!doctype html>
<title>Moved</title>
<link rel="canonical" href="{new}">
<meta http-equiv="refresh" content="0; url={new}">
<a href="{new}">This page has moved</a>
"""


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of commands and settings, and the linked files."""
    wanted: set[Path] = set()
    for page in files.documentation_pages():
        for path, _ in _LINK.findall(page.content_string):
            found = _ROOT / path
            if not found.exists():
                raise PluginError(f"{page.src_uri} links to {path}, which does not exist")
            wanted |= {found, *(each for each in found.glob("*") if each.is_file())} if found.is_dir() else {found}
    for found in sorted(wanted):
        files.append(File.generated(config, _target(found), content=_content(found)))
    context = click.Context(cli, info_name="headstream", max_content_width=_WIDTH, terminal_width=_WIDTH)
    files.append(File.generated(config, "commands.md", content="\n".join([_COMMANDS, *_sections(cli, context, 2)])))
    files.append(File.generated(config, "settings.md", content=settings_page.make_page()))
    files.append(File.generated(config, "metrics.md", content=metrics_page.make_page()))
    for old, new in config.extra["moved"].items():
        files.append(File.generated(config, f"{old}.html", content=_REDIRECT.format(new=f"{new}.html")))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace the links of a page to files of the repository."""
    return _LINK.sub(lambda link: f"]({_target(_ROOT / link[1])})", markdown)


def _target(path: Path) -> str:
    name = path.relative_to(_ROOT).as_posix()
    return f"source/{name}/index.txt" if path.is_dir() else f"source/{name}.txt"


def _content(path: Path) -> bytes:
    if path.is_dir():
        return "".join(f"{each.name}\n" for each in sorted(path.iterdir()) if each.is_file()).encode()
    return path.read_bytes()


def _sections(command: click.Command, context: click.Context, depth: int) -> Iterator[str]:
    """Iterate over a command's section and those of its subcommands."""
    yield f"{'#' * min(depth, 4)} {context.command_path}\n\n```text\n{command.get_help(context).rstrip()}\n```\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if child is not None and not child.hidden:
                inner = click.Context(child, context, name, max_content_width=_WIDTH, terminal_width=_WIDTH)
                yield from _sections(child, inner, depth + 1)
