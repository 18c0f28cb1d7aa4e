"""Write constraints.txt and requirements.lock: the newest versions that pyproject.toml allows, with the digests of their files.

    make lock                              both files
    tools/lock_requirements.py digests     requirements.lock alone, for a constraints.txt changed by hand

`make setup` installs nothing whose SHA-256 digest is not in requirements.lock. All files of a release are in it, so that it
serves every Python and every platform that the release does. pip resolves `headstream[dev]` with the oldest Python that is
supported, because the newest version of a package may need a newer one. Packages are asked for by name; nothing is installed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from pip._internal.commands.download import DownloadCommand
from pip._internal.index.collector import parse_links
from pip._vendor.packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename

_ROOT = Path(__file__).parents[1]
_HEAD = "# Written by tools/lock_requirements.py from constraints.txt: every file of each release. Don't edit this by hand.\n"


def main(arguments: list[str]) -> int:
    """Write both files, or with `digests` the second; return 1 where the oldest Python is needed, or a release has no file."""
    if arguments != ["digests"]:
        oldest = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]["requires-python"].removeprefix(">=")
        if sys.version_info[:2] != tuple(map(int, oldest.split("."))):
            sys.stderr.write(
                f"versions are chosen with Python {oldest}, the oldest that is supported: make PYTHON=python{oldest} lock\n"
            )
            return 1
        pins = _resolve()
        (_ROOT / "constraints.txt").write_text("".join(f"{pin}\n" for pin in pins))
    return _write_lock((_ROOT / "constraints.txt").read_text().split())


def _resolve() -> list[str]:
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet", "--report", "-"]
    done = subprocess.run([*command, f"{_ROOT}[dev]"], check=True, stdout=subprocess.PIPE, text=True)
    found = [package["metadata"] for package in json.loads(done.stdout)["install"]]
    return sorted((f"{each['name']}=={each['version']}" for each in found if each["name"] != "headstream"), key=str.lower)


def _write_lock(pins: list[str]) -> int:
    command = DownloadCommand("download", "")
    options, _ = command.parse_args(["--no-input", "setuptools"])
    with command.main_context():
        collector = command._build_package_finder(options, command.get_default_session(options))._link_collector
        lines = [_HEAD]
        for pin in pins:
            name, version = pin.split("==")
            digests = _digests(collector, name, version)
            if not digests:
                sys.stderr.write(f"the index has no file of {pin} with a SHA-256\n")
                return 1
            lines.append(" \\\n    ".join([pin, *(f"--hash=sha256:{digest}" for digest in digests)]) + "\n")
    (_ROOT / "requirements.lock").write_text("".join(lines))
    return 0


def _digests(collector: Any, name: str, version: str) -> list[str]:
    def read(link: Any) -> list[Any]:
        page = collector.fetch_response(link)
        return list(parse_links(page)) if page else []

    sources = collector.collect_sources(name, candidates_from_page=read)
    links = [link for source in sources.index_urls if source for link in source.page_candidates()]
    release = (canonicalize_name(name), version)
    return sorted({link.hash for link in links if link.hash_name == "sha256" and _release(link.filename) == release})


def _release(file_name: str) -> tuple[str, str] | None:
    try:
        name, version, *_ = parse_wheel_filename(file_name) if file_name.endswith(".whl") else parse_sdist_filename(file_name)
    except ValueError:  # a file from before versions had rules, and an .egg or .exe
        return None
    return canonicalize_name(name), str(version)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
