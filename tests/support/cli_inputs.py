"""Messages of every kind for the tests of the command line, and its runners: in this process, and in one of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner, Result
from hypothesis import strategies as st

from headstream.cli.main import cli
from headstream.core.model.constructors import CONSTRUCTORS
from headstream.core.model.header_values import KIND_WIDTHS, HeaderKind, HeaderValue
from headstream.core.model.headers import Headers
from headstream.core.model.message import Message

COMMAND = (sys.executable, "-m", "headstream.cli")

ALL_KINDS = Headers(
    [
        ("raw", CONSTRUCTORS["raw"](b"\x00\xff")),
        ("string", "grün \u2028 \n \x1b[31m"),
        ("bool", True),
        *((f"int{bits}", CONSTRUCTORS[f"int{bits}"](-(1 << (bits - 1)))) for bits in (8, 16, 32, 64, 128)),
        *((f"uint{bits}", CONSTRUCTORS[f"uint{bits}"]((1 << bits) - 1)) for bits in (8, 16, 32, 64, 128)),
        ("float32", CONSTRUCTORS["float32"](0.1)),
        ("float64", 5e-324),
        ("infinite", float("-inf")),
        ("nan", HeaderValue(HeaderKind.FLOAT32, bytes.fromhex("0100c07f"))),
        ("null", None),
        ("char", CONSTRUCTORS["char"]("ß")),
        ("half", HeaderValue(HeaderKind.CHAR, b"\x00\xd8")),
        ("raw", CONSTRUCTORS["raw"](b"")),
    ]
)
"""Every kind at its edges; `raw` comes twice."""


def _of_width(kind: int, width: int) -> st.SearchStrategy[HeaderValue]:
    data = st.sampled_from((b"\0", b"\1")) if kind == HeaderKind.BOOL else st.binary(min_size=width, max_size=width)
    return st.builds(HeaderValue, st.just(kind), data)


def header_values() -> st.SearchStrategy[HeaderValue]:
    """Values of every kind, known and unknown, from any bytes that can be one."""
    sized = [_of_width(kind, width) for kind, width in KIND_WIDTHS.items()]
    text = st.text(max_size=20).map(CONSTRUCTORS["string"])
    unknown = st.builds(HeaderValue, st.integers(1, 255).filter(lambda n: n not in set(HeaderKind)), st.binary(max_size=20))
    return st.one_of(*sized, text, st.binary(max_size=20).map(CONSTRUCTORS["raw"]), unknown)


def headers() -> st.SearchStrategy[Headers]:
    keys = st.text(min_size=1, max_size=10)
    return st.lists(st.tuples(keys, header_values()), max_size=5).map(Headers)


def messages() -> st.SearchStrategy[Message]:
    number = st.integers(0, (1 << 64) - 1)
    return st.builds(
        Message,
        payload=st.none() | st.binary(max_size=40),
        headers=headers(),
        key=st.none() | st.binary(max_size=10),
        id=st.integers(0, (1 << 128) - 1),
        offset=number,
        timestamp=number,
        state=st.integers(0, 255),
        checksum=st.integers(0, (1 << 32) - 1),
        topic=st.sampled_from(("shop/orders", "a/b/c")),
        partition=st.integers(1, 1000),
    )


def environment(url: str | None = None, **variables: str) -> dict[str, str]:
    """This process's environment, but for the log, which is the one given."""
    kept = {name: value for name, value in os.environ.items() if name != "HEADSTREAM_URL"}
    return {**kept, **({"HEADSTREAM_URL": url} if url is not None else {}), **variables}


def run(
    *arguments: str | Path, url: str | None = None, stdin: bytes = b"", code: int = 0, variables: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end in this process, which spares the start of a program, and check its exit code."""
    given = list(map(str, arguments))
    ran = CliRunner(env={"HEADSTREAM_URL": url, **(variables or {})}).invoke(cli, given, stdin, catch_exceptions=False)
    assert ran.exit_code == code, (ran.exit_code, ran.stdout_bytes, ran.stderr_bytes)
    return subprocess.CompletedProcess(given, ran.exit_code, ran.stdout_bytes, ran.stderr_bytes)


def run_program(
    *arguments: str | Path, url: str | None = None, code: int = 0, variables: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run the program to its end and check its exit code."""
    command = [*COMMAND, *map(str, arguments)]
    ran = subprocess.run(command, capture_output=True, env=environment(url, **(variables or {})), timeout=300, check=False)
    assert ran.returncode == code, (ran.returncode, ran.stdout, ran.stderr)
    assert b"Traceback" not in ran.stderr, ran.stderr
    return ran


def invoke(*arguments: str, url: str, code: int = 0, given: str | bytes = "") -> Result:
    """Run a command for a log in this process, check its exit code, and return what it has printed, as text."""
    result = CliRunner().invoke(cli, [*arguments, "--url", url], input=given)
    assert result.exit_code == code, result.output
    return result
