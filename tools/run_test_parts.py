"""Run folders of tests in parts side by side, each in a pytest process of its own that collects only its own files.

    tools/run_test_parts.py [OPTION... --] FOLDER...        options are those of pytest

The tests of the Spark session are two parts, those of Replicate and the others, and so are those of the Kafka broker, those of
tests/behaviour and the others: two sessions and two brokers are started per run. The tests of the console share a browser.
The other files are divided into parts of the same cost, those of the quick tests into a part per process at least. The shared
parts begin first, since they take longest, and of each kind the costliest, so that all processes end at about the same time.
With options, which select tests of the second tier, the campaigns take longest: they begin first, and pytest-xdist divides them.
Times are written to `.cache/suite-times.json`.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[1]
OUTPUT: Final = ROOT / ".cache" / "suite"
_COUNT: Final = re.compile(r"(\d+) (passed|failed|skipped|errors?|xfailed|deselected)\b")
_PART_SECONDS: Final = 90.0
"""Most processor time of a part that shares nothing: well above the 3 s that the start of a process takes."""
_QUICK: Final = ("property", "unit", "vectors")
"""Folders whose files share parts: a process less costs 3 s less."""
_MEMORY: Final = Path("/dev/shm")
_MEMORY_BYTES: Final = 2 << 30
"""What must be free there for a part: the largest one leaves 0.6 GB of files."""
_WAITING: Final = "every-kind-of-log"
"""The part that waits for three quarters of its time, mostly for Kafka: it runs beside the others."""
_CONSOLE: Final = "tests/behaviour/console/"
"""Its tests share a browser, while which runs no other test of the process can start an event loop."""
_USES_KAFKA: Final = re.compile(r"empty_cluster|kafka_broker: KafkaBroker")
_USES_PLACES: Final = re.compile(r"\b(log: hs\.Client|[a-z_]+: Place)\b")
"""Fixtures of tests/behaviour/conftest.py: a log of each kind, Kafka among them."""


@dataclass
class Part:
    """Files that one process runs.

    Args:
        name: What it is called in the output, and its files below `.cache/suite`.
        files: Paths from the root of the repository.
        cost: What its tests took when the budget was written, in seconds of processor time.
        workers: How many processes pytest-xdist divides the tests among; 0: they run in the part's own process.
    """

    name: str
    files: list[str] = field(default_factory=list)
    cost: float = 0.0
    workers: int = 0

    def add(self, file: str, cost: float) -> None:
        """Have the part run a file too."""
        self.files.append(file)
        self.cost += cost

    def output(self, suffix: str) -> Path:
        """Return where the part writes."""
        return OUTPUT / f"{self.name}{suffix}"


def make_parts(files: Iterable[str], costs: dict[str, float], processes: int) -> list[Part]:
    """Divide files of tests into parts: those of shared processes first, and of each kind the costliest first.

    Args:
        files: Paths from the root of the repository.
        costs: Seconds of processor time per file.
        processes: How many parts run at a time.
    """
    shared: dict[str, Part] = {}
    others: dict[str, list[str]] = {}
    known = {file: costs.get(file, 1.0) or 0.01 for file in sorted(files)}
    for file, cost in known.items():
        name = _shared_process(file)
        if name is not None:
            shared.setdefault(name, Part(name)).add(file, cost)
        else:
            folder = file.split("/")[1]
            others.setdefault("unit" if folder in _QUICK else folder, []).append(file)
    packed = [part for name, kind in others.items() for part in _divide(name, kind, known, processes if name == "unit" else 1)]
    return [part for parts in (shared.values(), packed) for part in sorted(parts, key=lambda part: -part.cost)]


def _divide(name: str, files: list[str], costs: dict[str, float], least: int) -> list[Part]:
    """Divide files, in their order, into so many parts of about the same cost at least: neighbours import the same modules."""
    whole = sum(costs[file] for file in files)
    parts = [Part(f"{name}-{number + 1}") for number in range(max(math.ceil(whole / _PART_SECONDS), least))]
    done = 0.0
    for file in files:
        parts[int(len(parts) * (done + costs[file] / 2) / whole)].add(file, costs[file])
        done += costs[file]
    return [part for part in parts if part.files]


def _shared_process(file: str) -> str | None:
    """Return which of the shared processes the tests of a file use: what they take is in their source."""
    if file.startswith(_CONSOLE):
        return "console"
    is_integration = file.startswith("tests/integration/")
    if not is_integration and not file.startswith("tests/behaviour/"):
        return None
    text = (ROOT / file).read_text(encoding="utf-8")
    if is_integration and "spark: SparkSession" in text:
        return "spark-replicate" if file.startswith("tests/integration/replicate/") else "spark"
    if is_integration:
        return "kafka" if _USES_KAFKA.search(text) else None
    return "every-kind-of-log" if _USES_PLACES.search(text) else None


def begin_with_campaigns(parts: list[Part], processes: int) -> list[Part]:
    """Have the campaigns run in so many processes each, and return the parts with the campaigns first."""
    for part in parts:
        part.workers = processes if part.name.startswith("campaigns") else 0
    return sorted(parts, key=lambda part: not part.workers)


def read_costs(budget: dict[str, Any]) -> dict[str, float]:
    """Return the seconds of processor time per file of `tests/suite_budget.json`."""
    costs = {file: seconds for file, (_, seconds) in budget["others"].items()}
    for test, seconds in budget["tests"].items():
        file = test.partition("::")[0]
        costs[file] = costs.get(file, 0.0) + seconds
    return costs


def run_part(part: Part, options: list[str]) -> int:
    """Run a part; its output and times go to files below `.cache/suite`. Return the exit status of pytest."""
    environment = os.environ | ({} if part.workers else {"HEADSTREAM_SUITE_TIMES": str(part.output(".json"))})  # one writer
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # compiling is two thirds of a collection
    command = [sys.executable, "-m", "pytest", "-q", "-ra", "-n", str(part.workers), *options, *part.files]
    with temporary_directory() as directory, part.output(".log").open("wb") as log:
        environment |= {"TMPDIR": directory} if directory else {}
        return subprocess.run(command, cwd=ROOT, env=environment, stdout=log, stderr=subprocess.STDOUT, check=False).returncode


@contextmanager
def temporary_directory() -> Iterator[str | None]:
    """Lend a directory in memory for the temporary files of a part, None where there is no room: its syncs cost nothing."""
    is_fit = _MEMORY.is_dir() and not os.statvfs(_MEMORY).f_flag & os.ST_NOEXEC  # tests run programs that they write
    if not is_fit or shutil.disk_usage(_MEMORY).free < _MEMORY_BYTES:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="hs-", dir=_MEMORY, ignore_cleanup_errors=True) as directory:
        Path(directory).chmod(0o755)  # some servers that tests start run as another user
        yield directory


def run(parts: list[Part], options: list[str], processes: int) -> int:
    """Run parts in so many processes at a time, and _WAITING beside them, and write the times; return 1 if one failed."""
    shutil.rmtree(OUTPUT, ignore_errors=True)
    OUTPUT.mkdir(parents=True)
    begin = time.monotonic()
    counts: Counter[str] = Counter()
    skipped: set[str] = set()
    failed = []
    with ThreadPoolExecutor(processes) as pool, ThreadPoolExecutor(1) as waiting:
        running = {(waiting if part.name == _WAITING else pool).submit(run_part, part, options): part for part in parts}
        for ended in as_completed(running):
            part, lines = running[ended], running[ended].output(".log").read_text("utf-8", "replace").splitlines()
            summary = next((line for line in reversed(lines) if _COUNT.search(line)), "no summary")  # not what an exit prints
            print(f"{part.name}: {summary}", flush=True)  # noqa: T201
            counts.update({word: int(count) for count, word in _COUNT.findall(summary)})
            skipped.update(line for line in lines if line.startswith("SKIPPED"))
            if ended.result() not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
                print("\n".join(lines), flush=True)  # noqa: T201
                failed += [line for line in lines if line.startswith(("FAILED", "ERROR "))] or [f"FAILED {part.name}"]
    minutes = (time.monotonic() - begin) / 60
    totals = ", ".join(f"{count} {word}" for word, count in counts.items())
    print("\n".join([*sorted(skipped), *failed, f"{totals} in {minutes:.1f} min"]))  # noqa: T201
    own = os.times()
    write_times(parts, 60 * minutes, own.children_user + own.children_system)
    return 1 if failed else 0


def write_times(parts: list[Part], wall_seconds: float, cpu_seconds: float) -> None:
    """Write `.cache/suite-times.json` from the times of the parts."""
    tests: dict[str, Any] = {}
    for part in parts:
        if part.output(".json").is_file():  # not where no test was selected
            tests |= json.loads(part.output(".json").read_text(encoding="utf-8"))["tests"]
    times = {"wall_seconds": round(wall_seconds, 1), "cpu_seconds": round(cpu_seconds, 1), "tests": tests}
    (OUTPUT.parent / "suite-times.json").write_text(json.dumps(times, indent=0), encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Run the tests of the folders that the arguments name."""
    options = arguments[: arguments.index("--") if "--" in arguments else 0]
    folders = arguments[len(options) + 1 :] if options else arguments
    files = [str(path.relative_to(ROOT)) for folder in folders for path in (ROOT / folder).rglob("test_*.py")]
    costs = read_costs(json.loads((ROOT / "tests" / "suite_budget.json").read_text(encoding="utf-8")))
    processors = os.cpu_count() or 1
    processes = 4 if processors > 1 else 2  # half of the time a test waits
    parts = make_parts(files, costs, processes)
    return run(begin_with_campaigns(parts, processors) if options else parts, options, processes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
