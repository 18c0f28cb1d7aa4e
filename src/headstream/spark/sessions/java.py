"""Finds and checks the Java installation that Spark runs on, before Spark is started.

Spark's errors are unclear when Java is missing or too old, so this module checks Java first: `JAVA_HOME` if it is set (Spark
uses it unchecked), or `java` on the PATH.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headstream.errors import JavaError

MINIMUM_JAVA: Final = 17
"""The oldest Java version on which Spark 4 starts."""
VECTOR_MODULE: Final = "jdk.incubator.vector"
"""Module that Spark adds on its command line. Spark does not start on a Java reduced with jlink that lacks the module."""
_INSTALL: Final = (
    "Install a full Java 17 or 21, for example `apt-get install openjdk-17-jre-headless` or `brew install openjdk@17`, "
    "and put it on the PATH or set JAVA_HOME to its folder"
)
_ANSWER_SECONDS: Final = 30
"""Timeout of listing the modules, seconds."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java installation that Spark can run on: the path of `java` and its major version."""

    executable: Path
    version: int


def find_java() -> Java:
    """Return the Java installation that Spark will run on.

    Raises:
        JavaError: Java is missing, is older than 17, or lacks a module that Spark needs.
    """
    home = os.environ.get("JAVA_HOME")
    if home:
        executable = Path(home) / "bin" / ("java.exe" if os.name == "nt" else "java")
        if not os.access(executable, os.X_OK):
            raise JavaError("JAVA_HOME contains no Java", where=str(executable), advice=f"Unset JAVA_HOME, or: {_INSTALL}")
        return _inspect(executable)
    found = shutil.which("java")
    if found is None:
        raise JavaError("Spark requires Java, but there is no Java on the PATH, and JAVA_HOME is unset", advice=_INSTALL)
    return _inspect(Path(found))


@functools.cache
def _inspect(executable: Path) -> Java:
    try:
        answer = subprocess.run([executable, "--list-modules"], capture_output=True, text=True, timeout=_ANSWER_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaError(f"Java does not run: {error}", where=str(executable), advice=_INSTALL) from error
    base = re.search(r"^java\.base@(\d+)", answer.stdout, re.MULTILINE)
    if answer.returncode != 0 or base is None:
        # Java 8 and older have no modules.
        raise JavaError(
            f"Spark requires Java {MINIMUM_JAVA} or newer, but this version is older", where=str(executable), advice=_INSTALL
        )
    version = int(base[1])
    if version < MINIMUM_JAVA:
        raise JavaError(
            f"Spark requires Java {MINIMUM_JAVA} or newer, but this is Java {version}", where=str(executable), advice=_INSTALL
        )
    if not re.search(rf"^{re.escape(VECTOR_MODULE)}@", answer.stdout, re.MULTILINE):
        raise JavaError(
            f"this Java lacks the module {VECTOR_MODULE}, so Spark cannot start", where=str(executable), advice=_INSTALL
        )
    return Java(executable, version)


def main() -> int:
    """Print the Java that Spark will run on, for tools/run_tests.sh; return 1 if none is found."""
    try:
        java = find_java()
    except JavaError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"Java {java.version}: {java.executable}\n")
    return 0
