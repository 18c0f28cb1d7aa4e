"""What every benchmark shares: the machine it ran on, and a report that is printed and kept as text."""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType

from headstream.core.codec import mode

RESULTS = Path(__file__).parent / "results"
_PACKAGES = ("pyspark", "pyarrow", "deltalake", "fastavro")


def describe_machine() -> str:
    """One line: date, processor, cores, memory, versions."""
    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    versions = [f"Python {platform.python_version()}"]
    for package in _PACKAGES:
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    kernels = "compiled" if mode.compiled() else "interpreted"
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    return f"{today}: {model}, {os.cpu_count()} cores, {memory:.0f} GiB; {', '.join(versions)}; kernels {kernels}"


class Report:
    """Lines that are printed as they come, and written to results/<subject>.txt at the end.

    Args:
        subject: What is measured; names the file.
        write: Whether to write the file.
    """

    def __init__(self, subject: str, *, write: bool = True) -> None:
        self._path = RESULTS / f"{subject}.txt"
        self._write = write
        self._lines: list[str] = []

    def line(self, text: str) -> None:
        """Print a line and keep it."""
        print(text, flush=True)
        self._lines.append(text)

    def __enter__(self) -> Report:
        self.line(describe_machine())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if self._write and kind is None:
            RESULTS.mkdir(exist_ok=True)
            self._path.write_text("\n".join(self._lines) + "\n", encoding="utf-8")


@contextmanager
def run_benchmark(subject: str, description: str | None, quick: str) -> Iterator[tuple[Report, Path, bool]]:
    """Lend the report of a benchmark that can be run in short, a directory to work in, and whether it is run in short.

    Args:
        subject: What is measured; names the file of results, which is not written when it is run in short.
        description: What `--help` says of it.
        quick: What it says of `--quick`.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=quick)
    is_quick: bool = parser.parse_args().quick
    with tempfile.TemporaryDirectory(prefix="headstream-bench-") as name, Report(subject, write=not is_quick) as report:
        yield report, Path(name), is_quick
