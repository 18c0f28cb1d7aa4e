"""Environments with one of Iggy's own Python clients from PyPI, which are kept in .cache/ of the checkout."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

__all__ = ["make_environment"]

ROOT = Path(__file__).parents[3]


def make_environment(version: str, package: str = "iggy-py") -> Path:
    """Return the interpreter of an environment with that version of a client, made where it is not there yet.

    Raises:
        OSError: it cannot be installed here.
    """
    place = ROOT / ".cache" / package / f"{version}-{sys.implementation.cache_tag}"
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=place.parent))
        install = [
            str(made / "bin" / "python"),
            "-m",
            "pip",
            "install",
            "-q",
            "--disable-pip-version-check",
            "--no-deps",
            f"{package}=={version}",
        ]
        for command in ([sys.executable, "-m", "venv", str(made)], install):
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
            if done.returncode:
                shutil.rmtree(made)
                raise OSError(done.stdout)
        with suppress(OSError):  # another process was quicker
            made.rename(place)
        shutil.rmtree(made, ignore_errors=True)
    return place / "bin" / "python"
