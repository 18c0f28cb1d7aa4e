"""A hook of mkdocs: files of the repository that pages link to (`../examples/audit_headers.py`) become files of the site.

The site is complete by itself: such a link leads to source/<path>.txt, or for a directory to a list of its files.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

_ROOT = Path(__file__).parents[1]
_LINK = re.compile(r"\]\(\.\./([^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the linked files to the site."""
    wanted: set[Path] = set()
    for page in files.documentation_pages():
        for path, _ in _LINK.findall(page.content_string):
            found = _ROOT / path
            if not found.exists():
                raise PluginError(f"{page.src_uri} links to {path}, which does not exist")
            wanted |= {found, *(each for each in found.glob("*") if each.is_file())} if found.is_dir() else {found}
    for found in sorted(wanted):
        files.append(File.generated(config, _target(found), content=_content(found)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Turn the links of one page."""
    return _LINK.sub(lambda link: f"]({_target(_ROOT / link[1])})", markdown)


def _target(path: Path) -> str:
    name = path.relative_to(_ROOT).as_posix()
    return f"source/{name}/index.txt" if path.is_dir() else f"source/{name}.txt"


def _content(path: Path) -> bytes:
    if path.is_dir():
        return "".join(f"{each.name}\n" for each in sorted(path.iterdir()) if each.is_file()).encode()
    return path.read_bytes()
