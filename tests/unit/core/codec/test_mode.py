"""Compiled and interpreted: how the mode is chosen, said, and that both exist side by side."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from headstream.core.codec import mode

PROGRAM = """
import sys
sys.modules["cython"] = None
from headstream.core.codec import mode
from headstream.core.codec.batch.to_columns import columns
from headstream.core.codec.batch.from_columns import pack
from headstream.core.codec.batch.stored import scan, stamp
assert not mode.compiled()
assert all(module.__file__.endswith(".py") for module in (columns, pack, scan, stamp))
print(mode.describe(), stamp.stamp(b"", 0, 0, bytes(16), False).count)
"""


def run(program: str, **environment: str) -> str:
    inherited = {name: value for name, value in os.environ.items() if name != "HEADSTREAM_INTERPRETED"}
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env={**inherited, **environment})
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_everything_runs_interpreted_without_cython_where_the_environment_asks_for_it() -> None:
    assert run(PROGRAM, HEADSTREAM_INTERPRETED="1") == "kernels interpreted 0"


@pytest.mark.parametrize("value", ["", "0"])
def test_an_environment_that_does_not_ask_changes_nothing(value: str) -> None:
    said = run("from headstream.core.codec import mode; print(mode.describe())", HEADSTREAM_INTERPRETED=value)
    assert said == run("from headstream.core.codec import mode; print(mode.describe())")


def test_describe_says_whether_the_kernels_are_compiled() -> None:
    expected = "kernels compiled, checksums by " if mode.compiled() else "kernels interpreted"
    assert mode.describe().startswith(expected)


@pytest.mark.parametrize("is_enabled", [True, False])
def test_a_python_without_its_gil_is_refused_at_the_import(is_enabled: bool) -> None:
    lines = ["import sys", f"sys._is_gil_enabled = lambda: {is_enabled}", "import headstream"]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False)
    assert (done.returncode == 0) is is_enabled, done.stderr
    assert is_enabled or "PYTHON_GIL=1" in done.stderr.splitlines()[-1]
