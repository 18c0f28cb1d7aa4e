"""Environments with one of Iggy's own Python clients from PyPI, kept in .cache/ of the checkout, and their scenarios."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import headstream as hs
from headstream.core.model.constructors import bool_

ROOT = Path(__file__).parents[3]
_SCENARIOS = ROOT / "tests" / "integration" / "iggy" / "scenarios_today.py"
KINDS: Final[dict[str, hs.HeaderValue]] = {
    "raw": hs.raw(b"\x00\xff"),
    "string": hs.string("tea"),
    "bool": bool_(True),
    "int8": hs.int8(-8),
    "int16": hs.int16(-16),
    "int32": hs.int32(-32),
    "int64": hs.int64(-64),
    "int128": hs.int128(-(1 << 100)),
    "uint8": hs.uint8(3),
    "uint16": hs.uint16(16),
    "uint32": hs.uint32(32),
    "uint64": hs.uint64((1 << 64) - 1),
    "uint128": hs.uint128(1 << 100),
    "float32": hs.float32(0.5),
    "float64": hs.float64(0.1),
}
"""The headers that the scenario `headers` sends."""


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


def play_today(python: Path, address: str, scenario: str, stream: str) -> Any:
    """Return the result of a scenario of today's Python client; address and scenario as in scenarios_today.py."""
    command = [str(python), str(_SCENARIOS), address, scenario, stream]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert not done.returncode, done.stderr[-2000:]
    return json.loads(done.stdout)
