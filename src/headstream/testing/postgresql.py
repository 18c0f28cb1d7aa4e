"""A real PostgreSQL server for tests: a separate cluster in a temporary directory, which starts in about two seconds.

    from headstream.testing import PostgresServer

    with PostgresServer(settings={"wal_level": "logical"}) as source:
        source.execute("CREATE TABLE orders (number int PRIMARY KEY, note text)")
        source.url                  # postgresql://headstream:...@127.0.0.1:21543/headstream
        source.jdbc_url             # jdbc:postgresql://127.0.0.1:21543/headstream, with .user and .password

In pytest, use the fixture `postgres`.

The programs `initdb`, `postgres` and `psql` must be on PATH or where Debian installs them. The server listens only on the
loopback interface, and has no Unix socket. The server is stopped when the process that started it exits or is killed
(process_guard), and leaves no files and no shared memory.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from headstream.errors import EnvironmentSetupError, InvalidInputError
from headstream.testing.temporary_server import HOST, TemporaryServer, find_free_ports

_NAME: Final = "headstream"
"""Name of the superuser and the database."""
_PROGRAMS: Final = ("initdb", "postgres", "psql")
_DEBIAN: Final = Path("/usr/lib/postgresql")
_DROP_ROOT: Final = (
    "import os,sys;u,g=map(int,sys.argv[1:3]);os.setgroups([]);os.setgid(g);os.setuid(u);os.execv(sys.argv[3],sys.argv[3:])"
)
"""A program that runs a command with a user id and a group id; its arguments are both ids and the command."""
_DEFAULTS: Final = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    # A killed server loses no data that the operating system has received, so syncing to disk is unnecessary.
    "fsync": "off",
    # In the data directory, so the file is removed with the directory.
    "dynamic_shared_memory_type": "mmap",
    "max_wal_size": "256MB",
    "timezone": "UTC",
}


class PostgresServer(TemporaryServer):
    """A PostgreSQL server that has one database, and runs from start() to stop() or within a `with` statement.

    Args:
        directory: Parent of the server's directory, which stop() removes; by default the system's temporary directory. If this
            process runs as root, the server runs as the user `postgres` or `nobody`, which must have access to the directory.
        settings: Server settings that override the test defaults, such as {"wal_level": "logical"}.
        start_seconds: Start timeout, seconds.
    """

    _ending = "SIGQUIT"

    def __init__(
        self, directory: Path | str | None = None, *, settings: Mapping[str, str] | None = None, start_seconds: float = 60
    ) -> None:
        super().__init__("PostgreSQL server", directory, start_seconds)
        self.user: Final = _NAME
        self.password: Final = secrets.token_hex(8)
        self._settings = {**_DEFAULTS, **(settings or {})}
        self._port_number = 0

    @property
    def port(self) -> int:
        """The server's port on the loopback interface; ClosedError if the server was not started."""
        self._home()
        return self._port_number

    @property
    def url(self) -> str:
        """`postgresql://user:password@host:port/database`."""
        return f"postgresql://{self.user}:{self.password}@{HOST}:{self.port}/{_NAME}"

    @property
    def jdbc_url(self) -> str:
        """`jdbc:postgresql://host:port/database`, without `user` and `password`."""
        return f"jdbc:postgresql://{HOST}:{self.port}/{_NAME}"

    def execute(self, sql: str) -> str:
        """Run statements, each committed unless after BEGIN; return one line per row, with columns separated by `|`.

        Raises:
            InvalidInputError: a statement failed; the message contains the server's reason.
            ClosedError: the server was not started.
        """
        self._home()
        return self._run_psql(_NAME, sql)

    def _prepare(self, directory: Path) -> None:
        """Create an empty cluster."""
        programs = find_postgresql()
        self._port_number = find_free_ports()[0]
        (directory / "password").write_text(self.password)
        owner = _unprivileged_user()
        if owner is not None:
            for path in (directory, directory / "password"):
                os.chown(path, *owner)
        command = [str(programs / "initdb"), "-D", str(directory / "data"), "-U", self.user, f"--pwfile={directory / 'password'}"]
        options = ["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"]
        ran = subprocess.run(_as_owner([*command, *options]), capture_output=True, text=True, errors="replace", cwd="/")
        if ran.returncode != 0:
            raise EnvironmentSetupError(
                f"the PostgreSQL cluster in {directory} could not be created:\n{ran.stdout}{ran.stderr}",
                advice="Specify a directory that the user of the server can access, or omit the directory to use a temporary one",
            )
        (directory / "password").unlink()

    def _command(self, directory: Path) -> list[str]:
        settings = [f"--{name}={value}" for name, value in {**self._settings, "port": str(self._port_number)}.items()]
        return _as_owner([str(find_postgresql() / "postgres"), "-D", str(directory / "data"), *settings])

    def _is_ready(self) -> bool:
        with contextlib.suppress(InvalidInputError):
            self._run_psql("postgres", "SELECT 1")
            return True
        return False

    def _complete(self) -> None:
        self._run_psql("postgres", f"CREATE DATABASE {_NAME}")

    def _kill(self, directory: Path) -> None:
        import psutil  # of headstream[server]

        with contextlib.suppress(psutil.NoSuchProcess, FileNotFoundError):
            server = psutil.Process(int(_pid_file(directory).read_text().split("\n", 1)[0]))
            server.suspend()  # the program starts no further processes
            for process in (*server.children(recursive=True), server):
                process.kill()

    def _clean_up(self, directory: Path) -> None:
        # The segment of a killed server outlives its processes. A stopped server has no such file.
        with contextlib.suppress(FileNotFoundError, IndexError):
            segment = _pid_file(directory).read_text().splitlines()[6].split()[1]
            subprocess.run(["ipcrm", "-m", segment], capture_output=True)

    def _run_psql(self, database: str, sql: str) -> str:
        address = ["-h", HOST, "-p", str(self._port_number), "-U", self.user, "-d", database]
        ran = subprocess.run(
            [str(find_postgresql() / "psql"), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", *address],
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
                f"PostgreSQL rejected the statement: {ran.stderr.strip()}", where=f"{HOST}:{self._port_number}"
            )
        return ran.stdout


def find_postgresql() -> Path:
    """Return the directory of `initdb`, from PATH or Debian's newest package; EnvironmentSetupError if there is none."""
    places = [Path(found).resolve().parent for found in (shutil.which("initdb"),) if found is not None]
    places += sorted(_DEBIAN.glob("*/bin"), key=lambda path: [int(part) for part in re.findall(r"\d+", str(path))], reverse=True)
    for place in places:
        if all((place / program).exists() for program in _PROGRAMS):
            return place
    raise EnvironmentSetupError(
        f"the programs of PostgreSQL ({', '.join(_PROGRAMS)}) are neither on PATH nor in {_DEBIAN}",
        advice="Install PostgreSQL (on Debian and Ubuntu: `apt-get install postgresql`)",
    )


def _unprivileged_user() -> tuple[int, int] | None:
    """Return the user and group for the server if this process runs as root, because PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    import pwd

    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            user = pwd.getpwnam(name)
            return user.pw_uid, user.pw_gid
    raise EnvironmentSetupError(
        "PostgreSQL cannot run as root, and there is no user `postgres` or `nobody`", advice="Run as another user"
    )


def _as_owner(command: list[str]) -> list[str]:
    """Return the command that runs another command as the user of the server."""
    owner = _unprivileged_user()
    return command if owner is None else [sys.executable, "-I", "-c", _DROP_ROOT, str(owner[0]), str(owner[1]), *command]


def _pid_file(home: Path) -> Path:
    return home / "data" / "postmaster.pid"
