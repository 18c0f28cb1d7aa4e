"""The tutorials are true: their programs and commands are run in order, and what is printed is what the page shows."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(DOCS.glob("tutorial-*.md"))
COSTLY = {"tutorial-pipeline"}
"""It starts Spark several times; `make demo` runs the same pipeline."""
_BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
_END = "<end of the command: "
_TIMEOUT_S = 300


class Shell:
    """One shell for all commands of a page."""

    def __init__(self, directory: Path) -> None:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HEADSTREAM_")}
        environment = kept | {"PATH": path, "COLUMNS": "200", "HOME": str(directory)}
        if "XDG_CACHE_HOME" not in kept:
            environment["XDG_CACHE_HOME"] = str(Path.home() / ".cache")  # the jars
        self._process = subprocess.Popen(
            ["bash"], cwd=directory, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, encoding="utf-8", start_new_session=True,
        )  # fmt: skip

    def run(self, command: str) -> str:
        """Run a command, and return what it printed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        separator = "" if command.endswith("&") else ";"
        self._process.stdin.write(f"{command} {separator} printf '\\n{_END}%d>\\n' $?\n")
        self._process.stdin.flush()
        lines = list[str]()
        for line in self._process.stdout:
            if line.startswith(_END):
                assert line == f"{_END}0>\n", f"{command}\n{''.join(lines)}"
                return "".join(lines).removesuffix("\n")
            lines.append(line)
        raise AssertionError(f"the shell ended in: {command}\n{''.join(lines)}")

    def close(self) -> None:
        """End the shell and what it started."""
        os.killpg(self._process.pid, signal.SIGKILL)
        with self._process:
            pass


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path)
    yield shell
    shell.close()


def free_ports(page: str) -> str:
    """Replace the ports of a page by free ones."""
    for number in sorted(set(re.findall(r"127\.0\.0\.1:(\d+)", page))):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            page = page.replace(f":{number}", f":{probe.getsockname()[1]}")
    return page


def commands(block: str) -> Iterator[tuple[str, str]]:
    """Return the commands of a console block, each with what it prints."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, printed = part.partition("\n")
        while command.endswith("\\"):
            line, _, printed = printed.partition("\n")
            command = command[:-1] + line.lstrip()
        yield command, printed


def fits(printed: str, shown: str) -> bool:
    """Return whether an output is the shown one, where … is any text, a line of it any lines, and spaces align columns."""
    printed, shown = (re.sub(" +", " ", text).strip() for text in (printed, shown))
    lines = ("(?s:.*)" if line == "…" else re.escape(line).replace("…", ".*") for line in shown.splitlines())
    pattern = "\n".join(lines)
    return re.fullmatch(pattern, printed) is not None


@pytest.mark.timeout(_TIMEOUT_S)
@pytest.mark.parametrize(
    "page", [pytest.param(page, id=page.stem, marks=[pytest.mark.nightly] * (page.stem in COSTLY)) for page in PAGES]
)
def test_a_tutorial_prints_what_it_shows(page: Path, shell: Shell, tmp_path: Path) -> None:
    run = 0
    for language, name, content in _BLOCK.findall(free_ports(page.read_text("utf-8"))):
        if name:
            (tmp_path / name).write_text(content, "utf-8")
        elif language == "console":
            for command, shown in commands(content):
                printed = shell.run(command)
                assert fits(printed, shown), f"{command}\nprinted\n{textwrap.indent(printed, '  ')}"
                run += 1
    assert run > 5


@pytest.mark.parametrize(
    ("printed", "shown", "expected"),
    [
        ("a\n", "a", True),
        ("a b c\n", "a … c", True),
        ("a\nb\nc", "a\n…\nc", True),
        ("a\nb\nc", "a…c", False),
        ("ab", "a", False),
        ("a  b", "a    b", True),
        ("", "…", True),
    ],
)
def test_fits_takes_only_the_text_that_is_shown(printed: str, shown: str, expected: bool) -> None:
    assert fits(printed, shown) is expected
