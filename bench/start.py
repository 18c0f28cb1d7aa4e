"""How long Python takes to start: with nothing, with `import headstream`, and for help (goals: 60 and 150 ms above nothing).

Each row is the median of 21 processes, one of each row in turn; cpu is their user and system time, which other load changes less.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.machine import Report  # noqa: E402

ROUNDS = 21
COMMAND = str(Path(sys.executable).with_name("headstream"))
ROWS = {
    "python -c pass": (sys.executable, "-c", "pass"),
    "import headstream": (sys.executable, "-c", "import headstream"),
    "headstream --version": (COMMAND, "--version"),
    "headstream --help": (COMMAND, "--help"),
    "headstream topic --help": (COMMAND, "topic", "--help"),
}


def run(command: tuple[str, ...]) -> tuple[float, float]:
    """Return the seconds that a command takes, and those of processors."""
    before, begin_s = os.times(), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    taken_s, after = time.perf_counter() - begin_s, os.times()
    return taken_s, after.children_user + after.children_system - before.children_user - before.children_system


def main() -> None:
    with Report("start") as report:
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in ROWS}
        for _ in range(ROUNDS):
            for name, command in ROWS.items():
                found[name].append(run(command))
        medians = {name: tuple(map(statistics.median, zip(*times, strict=True))) for name, times in found.items()}
        nothing_s, _ = medians["python -c pass"]
        report.line(f"{'':24} {'ms':>6} {'cpu ms':>7} {'above python, ms':>17}")
        for name, (taken_s, cpu_s) in medians.items():
            report.line(f"{name:24} {taken_s * 1e3:6.0f} {cpu_s * 1e3:7.0f} {(taken_s - nothing_s) * 1e3:17.0f}")


if __name__ == "__main__":
    main()
