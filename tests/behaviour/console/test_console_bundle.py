"""The committed bundle is what the sources in console/ build."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from headstream.server.http.console.files import ConsoleFiles

ROOT = Path(__file__).parents[3]
SOURCES = ROOT / "console"
BUNDLE = ROOT / "src" / "headstream" / "server" / "http" / "console" / "bundle"
VITE = SOURCES / "node_modules" / ".bin" / "vite"


def files_of(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.mark.skipif(shutil.which("node") is None or not VITE.exists(), reason="needs Node and console/node_modules (npm ci)")
def test_bundle_is_what_the_sources_build(tmp_path: Path) -> None:
    subprocess.run([VITE, "build", "--outDir", tmp_path, "--logLevel", "error"], cwd=SOURCES, check=True, timeout=600)
    assert files_of(tmp_path) == files_of(BUNDLE), "run make console, and commit the bundle"


def test_lock_file_names_no_registry() -> None:
    lock = json.loads((SOURCES / "package-lock.json").read_text(encoding="utf-8"))
    assert all("resolved" not in package for package in lock["packages"].values())
    versions = {name: package for name, package in lock["packages"].items() if name}
    assert all(package.get("integrity") for package in versions.values())


def test_lock_file_holds_the_packages_of_every_platform() -> None:
    packages = json.loads((SOURCES / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    wanted = {name for package in packages.values() for name in package.get("optionalDependencies", {})}
    assert len(wanted) > 40  # esbuild and rollup have one for each platform
    assert [name for name in sorted(wanted) if f"node_modules/{name}" not in packages] == [], "npm ci refuses such a file"


def test_bundle_asks_nothing_of_other_hosts() -> None:
    for name, data in files_of(BUNDLE).items():
        text = data.decode("utf-8")
        places = [part.split('"')[0].split("'")[0].split(")")[0] for part in text.split("://")[1:]]
        # names of XML and what a text says, none of which is a place that is asked
        assert all(place.startswith(("www.w3.org/",)) for place in places), (name, places)


def test_the_first_view_is_less_than_300_kb() -> None:
    sent = [ConsoleFiles().find("GET", f"/console/{name}", "gzip") for name in files_of(BUNDLE) if not name.endswith(".svg")]
    index = ConsoleFiles().find("GET", "/console/", "gzip")
    assert index is not None
    assert all(reply is not None and reply.headers["Content-Encoding"] == "gzip" for reply in sent)
    assert len(index.body) + sum(len(reply.body) for reply in sent if reply is not None) < 300_000
