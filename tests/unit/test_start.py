"""What `import headstream` and `headstream --help` load: nothing that only some programs need."""

from __future__ import annotations

import subprocess
import sys

import pytest

LATER = {
    "asyncio",
    "difflib",
    "importlib.resources",
    "random",
    "shutil",
    "socket",
    "sqlite3",
    "ssl",
    "tempfile",
    "threading",
    "uuid",
}
EXTRAS = {"aioquic", "confluent_kafka", "deltalake", "fastavro", "numpy", "pyarrow", "pyspark", "rich"}


@pytest.mark.parametrize(
    ("statement", "later"),
    [
        ("import headstream", LATER | EXTRAS | {"click"}),
        ("from headstream.cli.main import cli; cli(['--help'], standalone_mode=False)", EXTRAS | {"asyncio", "sqlite3", "ssl"}),
    ],
    ids=["import", "help"],
)
def test_modules_are_not_loaded_before_they_are_needed(statement: str, later: set[str]) -> None:
    code = f"import sys; {statement}; print('loaded', *sys.modules)"
    run = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(run.stdout.rpartition("loaded ")[2].split())
    assert "headstream.errors" in loaded
    assert not loaded & later
