"""The second try of tests that drive JVMs and processes, by a tiny suite with failures of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools/second_try.py"
PASSES = "def test_passes(): pass\n"
FAILS = "def test_fails(): assert False\n"
FLAKY = """
from pathlib import Path
import pytest
@pytest.mark.parametrize("name", [{names}])
def test_flaky(name):
    assert (Path("tried") / name).exists(), Path("tried").mkdir(exist_ok=True) or (Path("tried") / name).touch()
"""


def run(place: Path, suite: dict[str, str]) -> tuple[int, str]:
    (place / "pytest.ini").write_text("[pytest]\naddopts = -p no:cacheprovider\n")
    for name, source in suite.items():
        path = place / "tests" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    command = [sys.executable, str(TOOL), "-q", "-n", "2", "tests"]
    ran = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=120, check=False)
    return ran.returncode, ran.stdout + ran.stderr


def flaky(*names: str) -> str:
    return FLAKY.format(names=", ".join(map(repr, names)))


@pytest.mark.parametrize("name", ["integration/spark/test_b.py", "behaviour/test_b.py"])
def test_second_try_names_a_test_as_flaky_when_it_passes_then(tmp_path: Path, name: str) -> None:
    code, output = run(tmp_path, {"unit/test_a.py": PASSES, name: flaky("one") + PASSES})
    assert "A second try for 1 of the tests" in output
    assert f"FLAKY tests/{name}::test_flaky[one]: it failed, and passed at its second try" in output
    assert "FAILED TWICE" not in output
    assert code == 0


def test_second_try_fails_when_a_test_fails_again(tmp_path: Path) -> None:
    code, output = run(tmp_path, {"integration/test_b.py": flaky("one") + FAILS})
    assert "FAILED TWICE tests/integration/test_b.py::test_fails" in output
    assert "FLAKY tests/integration/test_b.py::test_flaky[one]" in output
    assert code == 1


@pytest.mark.parametrize(
    "suite",
    [
        {"unit/test_a.py": flaky("one"), "integration/test_b.py": PASSES},
        {"unit/test_a.py": FAILS, "integration/test_b.py": flaky("one")},
        {"integration/test_b.py": flaky("1", "2", "3", "4", "5", "6")},
        {"integration/test_b.py": "import nothing_of_that_name\n"},
    ],
    ids=["a unit test", "a unit test as well", "too many", "not even collected"],
)
def test_second_try_is_not_given(tmp_path: Path, suite: dict[str, str]) -> None:
    code, output = run(tmp_path, suite)
    assert code in (pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED)
    assert "short test summary info" in output
    assert "second try" not in output


def test_second_try_is_not_needed_when_everything_passes(tmp_path: Path) -> None:
    code, output = run(tmp_path, {"integration/test_b.py": PASSES})
    assert (code, "1 passed" in output, "second try" in output) == (0, True, False)
