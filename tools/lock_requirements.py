"""Write requirements.lock: constraints.txt with the SHA-256 digests of every file of each release, without addresses.

`make setup` installs nothing whose digest is not in it. All files of a release are in it, so that it serves every Python and
every platform that the release does. Run this after changing constraints.txt. It asks the package index through pip, once a
package, and downloads no package.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pip._internal.commands.download import DownloadCommand
from pip._internal.index.collector import parse_links
from pip._vendor.packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename

_ROOT = Path(__file__).parents[1]
_HEAD = "# Written by tools/lock_requirements.py from constraints.txt: every file of each release. Don't edit this by hand.\n"


def main() -> int:
    """Write the file, or return 1 where a release has no file."""
    command = DownloadCommand("download", "")
    options, _ = command.parse_args(["--no-input", "setuptools"])
    with command.main_context():
        collector = command._build_package_finder(options, command.get_default_session(options))._link_collector
        lines = [_HEAD]
        for pin in (_ROOT / "constraints.txt").read_text().split():
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
    sys.exit(main())
