"""A real PostgreSQL server for tests: a cluster of its own in a temporary directory, started in about two seconds.

    from headstream.testing import PostgresServer

    with PostgresServer(settings={"wal_level": "logical"}) as source:
        source.execute("CREATE TABLE orders (number int PRIMARY KEY, note text)")
        source.url                  # postgresql://headstream:...@127.0.0.1:21543/headstream
        source.jdbc_url             # jdbc:postgresql://127.0.0.1:21543/headstream, with .user and .password

In pytest, a test takes the fixture `postgres`.

It needs PostgreSQL's programs (`initdb`, `postgres`, `psql`), which it looks up on PATH and where Debian installs them. It
listens on the loopback address only, and has no Unix socket. The server ends with the process that started it, even if that
is killed (process_guard), and leaves neither files nor shared memory.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from headstream.errors import ClosedError, EnvironmentSetupError, InvalidInputError
from headstream.testing import process_guard
from headstream.testing.kafka_broker import find_free_ports

_HOST: Final = "127.0.0.1"
_NAME: Final = "headstream"
"""Of the superuser and of the database."""
_PROGRAMS: Final = ("initdb", "postgres", "psql")
_DEBIAN: Final = Path("/usr/lib/postgresql")
_RETRIES: Final = 20
_RETRIED: Final = ("Address already in use", "is still in use", "is starting up")
"""Ends of a start that a later start does not have: another process took the port, or killed processes are still exiting."""
_LOOK_SECONDS: Final = 0.05
_DROP_ROOT: Final = (
    "import os,sys;u,g=map(int,sys.argv[1:3]);os.setgroups([]);os.setgid(g);os.setuid(u);os.execv(sys.argv[3],sys.argv[3:])"
)
"""A program that runs the rest of its arguments as the user and group of the first two."""
_DEFAULTS: Final = {
    "listen_addresses": _HOST,
    "unix_socket_directories": "",
    # A killed server loses nothing that the operating system has, so that its data need not reach the disk.
    "fsync": "off",
    # In the data directory, and so removed with it.
    "dynamic_shared_memory_type": "mmap",
    "max_wal_size": "256MB",
    "timezone": "UTC",
}


class PostgresServer:
    """A PostgreSQL server with one database, running from start() to stop() or within a `with` statement.

    Args:
        directory: Directory in which its own directory is made, which stop() removes; by default that of temporary files.
            If this process runs as root, the server runs as the user `postgres` or `nobody`, who must be able to reach it.
        settings: Settings of the server that override the defaults here, as {"wal_level": "logical"}.
        start_seconds: Timeout of a start, seconds.
    """

    def __init__(
        self, directory: Path | str | None = None, *, settings: Mapping[str, str] | None = None, start_seconds: float = 60
    ) -> None:
        self.user: Final = _NAME
        self.password: Final = secrets.token_hex(8)
        self._parent = directory
        self._settings = {**_DEFAULTS, **(settings or {})}
        self._start_seconds = start_seconds
        self._home: Path | None = None
        self._port_number = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def port(self) -> int:
        """Its port of the loopback address; ClosedError if it was not started."""
        if self._home is None:
            raise ClosedError("the PostgreSQL server is not running", advice="Call start(), or use it in a `with`")
        return self._port_number

    @property
    def url(self) -> str:
        """`postgresql://user:password@host:port/database`."""
        return f"postgresql://{self.user}:{self.password}@{_HOST}:{self.port}/{_NAME}"

    @property
    def jdbc_url(self) -> str:
        """`jdbc:postgresql://host:port/database`, without `user` and `password`."""
        return f"jdbc:postgresql://{_HOST}:{self.port}/{_NAME}"

    @property
    def is_running(self) -> bool:
        """Whether its process is running."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Start the server and return it when it accepts connections; does nothing if it is running.

        After kill() it continues with its data.

        Raises:
            EnvironmentSetupError: its programs are missing, or it did not start; the text has the end of its log.
        """
        if self.is_running:
            return self
        programs = find_postgresql()
        is_new = self._home is None
        try:
            home = self._home or self._initialise(programs)
            for attempt in range(_RETRIES):
                try:
                    self._launch(programs, home)
                    break
                except EnvironmentSetupError as error:
                    self._end(b"keep")
                    if attempt + 1 == _RETRIES or not any(text in str(error) for text in _RETRIED):
                        raise
                    if is_new:
                        self._port_number = find_free_ports()[0]
                    time.sleep(_LOOK_SECONDS)
            if is_new:
                self._run_psql(programs, "postgres", f"CREATE DATABASE {_NAME}")
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End it at once and remove its data; does nothing if it is not running."""
        home, self._home = self._home, None
        self._end(b"")
        if home is not None:
            _remove_shared_memory(home)
            shutil.rmtree(home, ignore_errors=True)

    def kill(self) -> None:
        """Kill all its processes (as kill -9 does), keep data and port for the next start(); ClosedError: not started."""
        import psutil  # of headstream[server]

        assert self.port
        home = self._home
        assert home is not None
        with contextlib.suppress(psutil.NoSuchProcess, FileNotFoundError):
            server = psutil.Process(int(_pid_file(home).read_text().split("\n", 1)[0]))
            server.suspend()  # it starts no further processes
            for process in (*server.children(recursive=True), server):
                process.kill()
        self._end(b"keep")

    def execute(self, sql: str) -> str:
        """Run statements and return their output: a line per row, columns separated by `|`. Each commits unless they say BEGIN.

        Raises:
            InvalidInputError: a statement failed; the text has the server's reason.
            ClosedError: the server was not started.
        """
        assert self.port
        return self._run_psql(find_postgresql(), _NAME, sql)

    def log_tail(self, lines: int = 40) -> str:
        """Return the end of its log, at most `lines` lines."""
        with contextlib.suppress(FileNotFoundError):
            if self._home is not None:
                return "\n".join((self._home / "server.log").read_text(errors="replace").splitlines()[-lines:])
        return ""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def _initialise(self, programs: Path) -> Path:
        """Make its directory with an empty cluster."""
        self._home = home = Path(tempfile.mkdtemp(prefix="headstream-postgresql-", dir=self._parent))
        self._port_number = find_free_ports()[0]
        (home / "password").write_text(self.password)
        owner = _unprivileged_user()
        if owner is not None:
            for path in (home, home / "password"):
                os.chown(path, *owner)
        command = [str(programs / "initdb"), "-D", str(home / "data"), "-U", self.user, f"--pwfile={home / 'password'}"]
        options = ["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"]
        ran = subprocess.run(_as_owner([*command, *options]), capture_output=True, text=True, errors="replace", cwd="/")
        if ran.returncode != 0:
            raise EnvironmentSetupError(
                f"PostgreSQL's cluster in {home} could not be made:\n{ran.stdout}{ran.stderr}",
                advice="Name a directory that the user of the server can reach, or none for that of temporary files",
            )
        (home / "password").unlink()
        return home

    def _launch(self, programs: Path, home: Path) -> None:
        settings = [f"--{name}={value}" for name, value in {**self._settings, "port": str(self._port_number)}.items()]
        command = _as_owner([str(programs / "postgres"), "-D", str(home / "data"), *settings])
        guard = [sys.executable, "-I", str(process_guard.__file__), "--signal", "SIGQUIT", str(home)]
        with (home / "server.log").open("wb") as log:
            self._process = subprocess.Popen(
                [*guard, *command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd="/",  # another user may be unable to reach the directory of this process
                start_new_session=True,  # Ctrl-C goes to the tests, which then stop it
            )
        end = time.monotonic() + self._start_seconds
        while time.monotonic() < end:
            if self._process.poll() is not None:
                raise EnvironmentSetupError(f"PostgreSQL exited while starting:\n{self.log_tail()}")
            with contextlib.suppress(InvalidInputError):
                self._run_psql(programs, "postgres", "SELECT 1")
                return
            time.sleep(_LOOK_SECONDS)
        raise EnvironmentSetupError(
            f"PostgreSQL did not start in {self._start_seconds} seconds:\n{self.log_tail()}", advice="Increase start_seconds"
        )

    def _run_psql(self, programs: Path, database: str, sql: str) -> str:
        address = ["-h", _HOST, "-p", str(self._port_number), "-U", self.user, "-d", database]
        ran = subprocess.run(
            [str(programs / "psql"), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", *address],
            input=sql,
            capture_output=True,
            text=True,
            env={
                "PATH": os.environ.get("PATH", ""),
                "PGPASSWORD": self.password,
                "PGCLIENTENCODING": "UTF8",
                "LC_ALL": "C.UTF-8",
            },
        )
        if ran.returncode != 0:
            raise InvalidInputError(
                f"PostgreSQL rejects the statement: {ran.stderr.strip()}", where=f"{_HOST}:{self._port_number}"
            )
        return ran.stdout

    def _end(self, word: bytes) -> None:
        process, self._process = self._process, None
        if process is not None:
            process_guard.end(process, word)


def find_postgresql() -> Path:
    """Return the directory of PostgreSQL's `initdb` on PATH, or of Debian's newest package; EnvironmentSetupError: none."""
    places = [Path(found).resolve().parent for found in (shutil.which("initdb"),) if found is not None]
    places += sorted(_DEBIAN.glob("*/bin"), key=lambda path: [int(part) for part in re.findall(r"\d+", str(path))], reverse=True)
    for place in places:
        if all((place / program).exists() for program in _PROGRAMS):
            return place
    raise EnvironmentSetupError(
        f"PostgreSQL's programs ({', '.join(_PROGRAMS)}) are neither on PATH nor in {_DEBIAN}",
        advice="Install PostgreSQL, on Debian and Ubuntu with `apt-get install postgresql`",
    )


def _unprivileged_user() -> tuple[int, int] | None:
    """Return user and group of the server if this process runs as root, which PostgreSQL rejects."""
    if os.geteuid() != 0:
        return None
    import pwd

    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            user = pwd.getpwnam(name)
            return user.pw_uid, user.pw_gid
    raise EnvironmentSetupError(
        "PostgreSQL does not run as root, and there is neither a user `postgres` nor `nobody`", advice="Run as another user"
    )


def _as_owner(command: list[str]) -> list[str]:
    """Return the command that runs another one as the user of the server."""
    owner = _unprivileged_user()
    return command if owner is None else [sys.executable, "-I", "-c", _DROP_ROOT, str(owner[0]), str(owner[1]), *command]


def _pid_file(home: Path) -> Path:
    return home / "data" / "postmaster.pid"


def _remove_shared_memory(home: Path) -> None:
    """Remove the segment of a killed server, which outlives its processes. A stopped server has no such file."""
    with contextlib.suppress(FileNotFoundError, IndexError):
        segment = _pid_file(home).read_text().splitlines()[6].split()[1]
        subprocess.run(["ipcrm", "-m", segment], capture_output=True)
