"""requirements.lock: `make` installs what constraints.txt names, and each file is compared with a digest."""

from __future__ import annotations

import re
import sys
from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")


def test_lock_has_the_versions_of_the_constraints_with_digests() -> None:
    entries = re.findall(r"^(\S+==\S+)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)\n", LOCK, re.MULTILINE)
    assert [pin for pin, _ in entries] == (ROOT / "constraints.txt").read_text(encoding="utf-8").split(), (
        "run .venv/bin/python tools/lock_requirements.py digests"
    )
    comment, _, rest = LOCK.partition("\n")
    assert comment.startswith("#")
    assert rest == "".join(f"{pin}{digests}\n" for pin, digests in entries)  # and nothing else: no address


def test_make_installs_no_package_without_its_digest() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    installs = [line for line in text.splitlines() if "$(PIP_INSTALL)" in line or "pip install" in line]
    assert [line for line in installs if "--require-hashes" not in line] == [
        next(line for line in installs if line.startswith("PIP_INSTALL :=")),
        "\t@HEADSTREAM_INTERPRETED=1 $(PIP_INSTALL) --no-build-isolation -e .",
    ]
    assert "--no-deps" in installs[0]


def collect_dependencies(name: str, extras: set[str], found: set[tuple[str, str]]) -> set[str]:
    """Return the names of all that a package with extras depends on."""
    for requirement in map(Requirement, requires(name) or []):
        marker, needed = requirement.marker, canonicalize_name(requirement.name)
        if marker is not None and not any(marker.evaluate({"extra": extra}) for extra in {"", *extras}):
            continue
        if (needed, str(requirement.extras)) not in found:
            found.add((needed, str(requirement.extras)))
            collect_dependencies(needed, requirement.extras, found)
    return {name for name, _ in found}


def test_make_demo_waits_for_what_spark_needs_and_for_nothing_else() -> None:
    (names,) = re.findall(r"^DEMO := (.+)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    named, needed = {canonicalize_name(name) for name in names.split("|")}, collect_dependencies("headstream", {"spark"}, set())
    assert needed <= named
    if sys.version_info < (3, 12):  # newer ones need less
        assert needed == named
    assert set(names.split("|")) <= {pin.partition("==")[0] for pin in re.findall(r"^\S+==\S+", LOCK, re.MULTILINE)}
