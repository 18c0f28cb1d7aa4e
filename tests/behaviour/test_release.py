"""The steps of a release, in a repository of their own: tools/release.py."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from tools.bill_of_materials import write_bill

from headstream.version import __version__

ROOT = Path(__file__).parents[2]
CHANGELOG = "# Changelog\n\n## [Unreleased]\n\n### Added\n- Something.\n\n## [0.1.0] - 2026-01-02\n\n### Added\n- The first.\n"
IDENTITY = {f"GIT_{role}_{part}": "tester@localhost" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}


def release(root: Path, *arguments: str, fails: bool = False) -> str:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools/release.py"), "--root", str(root), *arguments],
        cwd=root,
        env={**os.environ, **IDENTITY},
        capture_output=True,
        text=True,
    )
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    return done.stdout + done.stderr


def git(root: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=root, env={**os.environ, **IDENTITY}, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    (root / "src/headstream").mkdir(parents=True)
    shutil.copy(ROOT / "src/headstream/version.py", root / "src/headstream/version.py")
    (root / "CHANGELOG.md").write_text(CHANGELOG)
    (root / "setup.py").write_text('MODULES = (\n    "a",\n)\n')
    git(root, "init", "--quiet", "--initial-branch=main")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message=All")
    return root


def test_cut_writes_version_and_changelog_and_tags_the_commit(repository: Path) -> None:
    said = release(repository, "cut", "9.2.0")
    assert "git push origin HEAD v9.2.0" in said
    assert '__version__: Final = "9.2.0"' in (repository / "src/headstream/version.py").read_text()
    text = (repository / "CHANGELOG.md").read_text()
    assert text.startswith("# Changelog\n\n## [Unreleased]\n\n## [9.2.0] - 20")
    assert "## [0.1.0] - 2026-01-02" in text
    assert git(repository, "rev-parse", "v9.2.0^{commit}") == git(repository, "rev-parse", "HEAD")
    assert git(repository, "status", "--porcelain") == ""
    assert release(repository, "notes", "9.2.0") == "### Added\n- Something.\n"


def test_cut_changes_nothing_when_a_release_is_not_possible(repository: Path) -> None:
    head = git(repository, "rev-parse", "HEAD")
    assert "MAJOR.MINOR.PATCH" in release(repository, "cut", "1.2", fails=True)
    assert "older than the version" in release(repository, "cut", "0.0.9", fails=True)
    assert "older than the version" in release(repository, "cut", f"{__version__}rc1", fails=True)
    git(repository, "tag", "v9.0.0")
    assert "the tag v9.0.0 exists" in release(repository, "cut", "9.0.0", fails=True)
    (repository / "new.txt").write_text("x")
    assert "not committed" in release(repository, "cut", "9.1.0", fails=True)
    git(repository, "add", "new.txt")
    (repository / "CHANGELOG.md").write_text(CHANGELOG.replace("### Added\n- Something.\n\n", ""))
    git(repository, "commit", "--quiet", "--all", "--message=Empty")
    assert "nothing below" in release(repository, "cut", "9.1.0", fails=True)
    assert git(repository, "rev-parse", "HEAD~1") == head
    assert git(repository, "tag", "--list") == "v9.0.0"


def write_wheel(dist: Path, name: str, *members: str) -> Path:
    path = dist / name
    with zipfile.ZipFile(path, "w") as archive:
        for member in (
            "headstream/py.typed",
            "headstream/server/http/console/bundle/index.html",
            "pyspark_headstream.py",
            *members,
        ):
            archive.writestr(member, "")
    return path


@pytest.mark.parametrize(
    ("name", "members", "problem"),
    [
        ("headstream-7.7.7-cp311-cp311-win_amd64.whl", ["headstream/a.pyd"], "not of version"),
        (f"headstream-{__version__}-cp311-cp311-win_amd64.whl", ["headstream/b.pyd"], "headstream/a is not compiled"),
        (f"headstream-{__version__}-cp39-cp39-linux_x86_64.whl", ["headstream/a.so"], "auditwheel has not seen it"),
        (f"headstream-{__version__}-cp39-cp39-win_amd64.whl", ["headstream/a.pyd", "tests/a.py"], "tests/a.py is not for users"),
        (f"headstream-{__version__}-py3-none-any.whl", [], "does not run"),
    ],
)
def test_check_refuses_a_file_that_is_not_of_the_release(
    repository: Path, tmp_path: Path, name: str, members: list[str], problem: str
) -> None:
    write_wheel(tmp_path, name, *members)
    assert problem in release(repository, "check", "--dist", str(tmp_path), fails=True)


def test_check_takes_a_wheel_of_another_platform_without_running_it(repository: Path, tmp_path: Path) -> None:
    write_wheel(tmp_path, f"headstream-{__version__}-cp39-cp39-win_amd64.whl", "headstream/a.pyd")
    assert "not run" in release(repository, "check", "--dist", str(tmp_path))


def test_check_misses_a_source_file_in_the_sdist(repository: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / f"headstream-{__version__}.tar.gz", "w:gz") as archive:
        for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
            archive.addfile(tarfile.TarInfo(f"headstream-{__version__}/{name}"), io.BytesIO())
    assert "src/headstream/version.py is missing" in release(repository, "check", "--dist", str(tmp_path), fails=True)


def test_sums_are_those_of_the_files(repository: Path, tmp_path: Path) -> None:
    dist = tmp_path / "dist"
    dist.mkdir()
    (dist / "a.whl").write_bytes(b"abc")
    for _ in range(2):  # the file of sums is not among them
        release(repository, "sums", "--dist", str(dist))
    assert (dist / "SHA256SUMS").read_text() == f"{hashlib.sha256(b'abc').hexdigest()}  a.whl\n"


def test_bill_of_materials_names_what_is_bundled_and_what_is_needed(tmp_path: Path) -> None:
    bill = json.loads(write_bill(ROOT, "1.2.3", tmp_path).read_text())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    components = {component["purl"].partition("@")[0]: component for component in bill["components"]}
    packages = json.loads((ROOT / "console/package.json").read_text())["dependencies"]
    assert packages
    for name, version in packages.items():
        assert components[f"pkg:npm/{name}"]["version"] == version
        assert components[f"pkg:npm/{name}"]["licenses"]
    assert components["pkg:pypi/click"]["scope"] == "required"
    assert components["pkg:pypi/pyspark"]["scope"] == "optional"
    assert not {"pkg:pypi/pytest", "pkg:npm/vite", "pkg:pypi/headstream"} & components.keys()
