"""Run pytest, and once more, alone, what failed of the tests that drive JVMs and processes.

    tools/second_try.py [pytest's arguments]

Those are in tests/integration and tests/behaviour. Such a test may fail because of what the machine did meanwhile. One that
passes at its second try is named as flaky, so that nobody overlooks it. Failures elsewhere, and more than a few, are what
they look like: there is no second try.
"""

from __future__ import annotations

import sys
from typing import Final

import pytest

_GET_A_SECOND_TRY: Final = ("tests/integration/", "tests/behaviour/")
_MOST_SECOND_TRIES: Final = 5


class _Failures:
    """A plugin that collects the names of what failed."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.names.add(report.nodeid)


def main(arguments: list[str]) -> int:
    """Return what to end with: 0 where every test passed, at its second try at the latest."""
    code, failed = _run(arguments)
    if code != pytest.ExitCode.TESTS_FAILED or not 0 < len(failed) <= _MOST_SECOND_TRIES:
        return code
    if not all(name.startswith(_GET_A_SECOND_TRY) for name in failed):
        return code
    _say(f"A second try for {len(failed)} of the tests that drive JVMs and processes, one at a time:")
    code, failed_again = _run(["-q", "-n", "0", *sorted(failed)])
    for name in sorted(failed):
        _say(
            f"FAILED TWICE {name}" if code and name in failed_again else f"FLAKY {name}: it failed, and passed at its second try"
        )
    return code


def _run(arguments: list[str]) -> tuple[int, set[str]]:
    failures = _Failures()
    return int(pytest.main(arguments, [failures])), failures.names


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
