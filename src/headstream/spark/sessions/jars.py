"""The JVM's jars, fetched with PySpark's own Ivy and cached in a folder of the user.

    $XDG_CACHE_HOME/headstream/jars/        or the folder in HEADSTREAM_JARS
        spark-1f0c22d1/                     a set; the digest of its jars' coordinates separates versions
            delta-spark_4.2_2.13-4.4.0.jar ...
            manifest.json                   the files and their sizes, written last

A set is fetched into a temporary folder, which is renamed when complete. So a folder with a set's name is always complete, even
if two processes fetch at the same time. On a machine without access to the repository, copy the jars into a folder and set
HEADSTREAM_JARS to it. Each jar, whatever its origin, is compared with its digest in jar_digests.py before a JVM loads it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final
from xml.sax.saxutils import quoteattr

from headstream.errors import JarsError, MissingExtraError
from headstream.spark.sessions.jar_digests import JAR_DIGESTS
from headstream.spark.sessions.jar_sets import SPARK, JarSet
from headstream.spark.sessions.java import find_java

_FETCH_SECONDS: Final = 900
"""Timeout of a fetch, seconds; fifty jars take about 30 s."""
_PROGRESS_SECONDS: Final = 0.2
"""Interval between progress reports, seconds."""
_SETTINGS: Final = (
    '<ivysettings><settings defaultResolver="central"/>'
    '<resolvers><ibiblio name="central" m2compatible="true"/></resolvers></ivysettings>'
)


def cache_folder() -> Path:
    """Return the user's cache folder for jars and other files that can be recreated; the folder may not exist."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headstream"


def find(jar_set: JarSet = SPARK, directory: Path | None = None) -> list[Path] | None:
    """Return the sorted paths of a set's jars, or None if the set does not exist.

    Args:
        directory: The folder that contains the sets; by default HEADSTREAM_JARS or the cache folder.

    Raises:
        JarsError: a jar's digest differs from its digest in jar_digests.py. If `fetch` created the folder, the jar is renamed, so
            the next `fetch` fetches it again; a jar that the user copied into the folder stays.
    """
    root = _root(directory)
    for folder in (root / jar_set.folder_name, root):
        paths = fetched = _read_manifest(folder) if folder.name == jar_set.folder_name else None
        if paths is None and not jar_set.transitive:  # copied to the folder by hand
            paths = [folder / jar.file_name for jar in jar_set.jars]
        if paths and all(path.is_file() for path in paths):
            _check_digests(paths, folder if fetched else None)
            return sorted(paths)
    return None


def fetch(
    directory: Path | None = None, *, jar_set: JarSet = SPARK, on_progress: Callable[[int, int], None] | None = None
) -> list[Path]:
    """Return the sorted paths of a set's jars, fetching missing jars.

    Args:
        directory: The folder that contains the sets; by default HEADSTREAM_JARS or the cache folder.
        on_progress: Called while jars are fetched, with the number of complete jars and the bytes received.

    Raises:
        JarsError: the jars could not be fetched or written, or a digest differs from jar_digests.py; the message names the
            coordinates or the file, and the folder.
        JavaError: no Java was found to run Ivy.
        MissingExtraError: PySpark, which contains Ivy, is not installed.
    """
    found = find(jar_set, directory)
    if found is not None:
        return found
    root = _root(directory)
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{jar_set.name}-", dir=root) as work:
            folder = _retrieve(jar_set, Path(work), on_progress)
            _check_digests(list(folder.iterdir()), root)
            _install(folder, root / jar_set.folder_name, jar_set)
    except OSError as error:
        raise JarsError(
            f"the jars of the set {jar_set.name} cannot be written: {error}",
            where=str(root),
            advice="Specify a writable folder in HEADSTREAM_JARS",
        ) from error
    found = find(jar_set, directory)
    if found is None:
        raise JarsError("the jars were fetched and then removed", where=str(root), advice="Run `headstream jars` again")
    return found


def _root(directory: Path | None) -> Path:
    named = os.environ.get("HEADSTREAM_JARS")
    return directory or (Path(named) if named else cache_folder() / "jars")


def _check_digests(paths: list[Path], refused: Path | None) -> None:
    """Raise JarsError for the first jar with an unknown digest, after moving the jar to the folder `refused` if given."""
    for path in sorted(paths):
        status = path.stat()
        digest = _digest(path, status.st_size, status.st_mtime_ns)
        known = JAR_DIGESTS.get(path.name)
        if digest == known:
            continue
        refused_path = None if refused is None else refused / f"{path.name}.refused"
        if refused_path is not None:
            path.replace(refused_path)
        raise JarsError(
            f"the jar {path.name} is not the jar that this version was tested with: its SHA-256 is {digest}, "
            + (f"not {known}" if known else "and its expected digest is unknown"),
            where=str(refused_path or path),
            advice=(
                "Copy the jar from the project's own repository again"
                if refused_path is None
                else "Check the origin of the jar, which was renamed; then run `headstream jars` to fetch the jar again"
            ),
        )


@lru_cache(maxsize=256)
def _digest(path: Path, size: int, modified: int) -> str:
    """Return the file's SHA-256. The cache key contains size and modification time, so a changed file is read again."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_manifest(folder: Path) -> list[Path] | None:
    try:
        sizes: dict[str, int] = json.loads((folder / "manifest.json").read_bytes())["files"]
        paths = [folder / name for name in sizes]
        return paths if all(path.stat().st_size == sizes[path.name] for path in paths) else None
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return None  # missing, or not written by fetch(): fetch the set


def _install(folder: Path, target: Path, jar_set: JarSet) -> None:
    files = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
    manifest = {"set": jar_set.name, "jars": [str(jar) for jar in jar_set.jars], "files": files}
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
    if target.exists() and _read_manifest(target) is None:
        shutil.rmtree(target)  # a jar of the set is missing or truncated, or was renamed
    try:
        folder.rename(target)
    except OSError:
        if find(jar_set, target.parent) is None:
            raise
        # Another process was faster: its jars are equivalent.


def _retrieve(jar_set: JarSet, work: Path, on_progress: Callable[[int, int], None] | None) -> Path:
    """Run Ivy in `work` and return the folder with the jars of the set."""
    (work / "settings.xml").write_text(_SETTINGS)
    (work / "ivy.xml").write_text(_describe(jar_set))
    command = [
        str(find_java().executable), f"-Divy.default.ivy.user.dir={work}", "-jar", str(_find_ivy()),
        "-settings", "settings.xml", "-cache", str(work / "cache"), "-ivy", "ivy.xml", "-confs", "fetched",
        "-retrieve", str(work / "[conf]" / "[artifact]-[revision].[ext]"), "-types", "jar", "bundle",
    ]  # fmt: skip
    output = work / "output.txt"
    with output.open("wb") as file, subprocess.Popen(command, cwd=work, stdout=file, stderr=file) as ivy:
        try:
            _wait(ivy, work / "cache", on_progress)
        except subprocess.TimeoutExpired:
            raise _failure(jar_set, f"no answer in {_FETCH_SECONDS} seconds") from None
        finally:
            ivy.kill()  # also after Ctrl-C; no effect if Ivy has ended
    folder = work / "fetched"
    missing = [str(jar) for jar in jar_set.jars if not (folder / jar.file_name).is_file()]
    if ivy.returncode != 0 or missing:
        raise _failure(jar_set, _first_fault(output.read_text(errors="replace")) or f"missing {', '.join(missing)}")
    return folder


def _wait(ivy: subprocess.Popen[bytes], cache: Path, on_progress: Callable[[int, int], None] | None) -> None:
    """Wait for Ivy, which writes a jar as `*.jar.part` and renames the file when it is complete."""
    deadline = time.monotonic() + _FETCH_SECONDS
    while ivy.poll() is None:
        if time.monotonic() > deadline:
            raise subprocess.TimeoutExpired(ivy.args, _FETCH_SECONDS)
        if on_progress is not None:
            with suppress(FileNotFoundError):  # renamed meanwhile: the next report counts the jar
                sizes = {path.name: path.stat().st_size for path in cache.rglob("*.jar*")}
                on_progress(sum(name.endswith(".jar") for name in sizes), sum(sizes.values()))
        with suppress(subprocess.TimeoutExpired):
            ivy.wait(_PROGRESS_SECONDS)


def _describe(jar_set: JarSet) -> str:
    transitive = quoteattr(str(jar_set.transitive).lower())
    dependencies = "".join(
        f"<dependency org={quoteattr(jar.organisation)} name={quoteattr(jar.name)} rev={quoteattr(jar.revision)}"
        f' transitive={transitive} conf="fetched-&gt;default"/>'
        for jar in jar_set.jars
    )
    return (
        '<ivy-module version="2.0"><info organisation="headstream" module="jars"/>'
        f'<configurations><conf name="fetched"/></configurations><dependencies>{dependencies}</dependencies></ivy-module>'
    )


def _find_ivy() -> Path:
    try:
        import pyspark
    except ImportError:
        raise MissingExtraError("PySpark is not installed", advice="Run: pip install 'headstream[spark]'") from None
    found = sorted((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))
    if not found:
        raise JarsError("this PySpark does not include Ivy", where=pyspark.__file__, advice="Install pyspark 4.2 from its wheel")
    return found[-1]


def _first_fault(output: str) -> str | None:
    marks = ("unknownhostexception", "connection", "timed out", "not found", "unresolved", "error")
    lines = [line.strip(" \t:!") for line in output.splitlines()]
    for mark in marks:
        for line in lines:
            if mark in line.lower() and "[" not in line[:1]:
                return line
    return None


def _failure(jar_set: JarSet, fault: str) -> JarsError:
    by_hand = (
        f"Or copy the folder {jar_set.folder_name} from another machine, and set HEADSTREAM_JARS to the folder's parent"
        if jar_set.transitive
        else "Or download these jars on another machine, copy them into a folder, and set HEADSTREAM_JARS to the folder"
    )
    return JarsError(
        f"the jars of the set {jar_set.name} could not be fetched: {fault}",
        where=" ".join(map(str, jar_set.jars)),
        advice=(
            "Check that this machine can reach the Maven repository (set a proxy in JAVA_TOOL_OPTIONS) "
            f"and run `headstream jars`. {by_hand}"
        ),
    )
