"""A real MariaDB in a temporary directory, with the programs that tools/install_nightly_tools.sh unpacks, and Debezium for it."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path
from typing import Any, Final

from headstream.errors import EnvironmentSetupError, InvalidInputError
from headstream.spark.sessions.jar_digests import JAR_DIGESTS
from headstream.spark.sessions.jar_sets import Jar, JarSet
from headstream.testing import DebeziumEngine
from headstream.testing.temporary_server import HOST, TemporaryServer, find_free_ports

__all__ = ["MariaDbEngine", "MariaDbServer"]

_ROOT: Final = Path(__file__).parents[3]
_PLACE: Final = _ROOT / ".cache" / "store-servers" / "mariadb"
_DATABASE: Final = "shop"
_VERSION: Final = "3.6.1.Final"
_JARS: Final = JarSet(
    "debezium-mariadb",
    (
        Jar("io.debezium", "debezium-embedded", _VERSION),
        Jar("io.debezium", "debezium-connector-mariadb", _VERSION),
        Jar("org.slf4j", "slf4j-simple", "2.0.17"),
    ),
    transitive=True,
)
_DIGESTS: Final = _ROOT / "tests" / "samples" / "debezium" / "mariadb_jars.sha256"


class MariaDbServer(TemporaryServer):
    """A MariaDB with row-based binary logs and one database, `shop`."""

    def __init__(self) -> None:
        super().__init__("MariaDB server")
        self.user, self.password = "root", "secret"
        self._port = 0

    @property
    def port(self) -> int:
        """Its port of the loopback address; ClosedError if it was not started."""
        self._home()
        return self._port

    @property
    def url(self) -> str:
        """`mariadb://user:password@host:port/database`."""
        return f"mariadb://{self.user}:{self.password}@{HOST}:{self.port}/{_DATABASE}"

    def execute(self, sql: str, database: str = _DATABASE) -> str:
        """Run statements and return their output: a line per row, columns separated by tabs."""
        login = [f"-h{HOST}", f"-P{self.port}", f"-u{self.user}", f"-p{self.password}", "--default-character-set=utf8mb4"]
        ran = self._run("bin/mariadb", *login, "-N", "-B", database, sql=sql)
        if ran.returncode != 0:
            raise InvalidInputError(f"MariaDB rejects the statement: {ran.stderr.strip()}")
        return ran.stdout

    def _prepare(self, directory: Path) -> None:
        self._port = find_free_ports()[0]
        options = [f"--basedir={_PLACE / 'usr'}", f"--datadir={directory / 'data'}", "--auth-root-authentication-method=normal"]
        ran = self._run("bin/mariadb-install-db", *options, "--skip-test-db", *_user())
        if ran.returncode != 0:
            raise EnvironmentSetupError(f"MariaDB's data directory could not be made: {ran.stdout}{ran.stderr}")
        (directory / "init.sql").write_text(
            f"ALTER USER root@localhost IDENTIFIED BY '{self.password}';\n"
            f"GRANT ALL ON *.* TO root@'127.0.0.1' IDENTIFIED BY '{self.password}' WITH GRANT OPTION;\n"
            f"CREATE DATABASE IF NOT EXISTS {_DATABASE} CHARACTER SET utf8mb4;\n"
        )

    def _command(self, directory: Path) -> list[str]:
        settings = {
            "basedir": _PLACE / "usr", "datadir": directory / "data", "socket": directory / "socket", "port": self._port,
            "bind-address": HOST, "server-id": 1, "log-bin": "bin", "binlog-format": "ROW", "binlog-row-image": "FULL",
            "innodb-flush-log-at-trx-commit": 0, "default-time-zone": "+00:00", "init-file": directory / "init.sql",
        }  # fmt: skip
        options = [f"--{name}={value}" for name, value in settings.items()]
        environ = [f"{name}={value}" for name, value in _environ().items() if name == "LD_LIBRARY_PATH"]
        return ["env", *environ, str(_PLACE / "usr/sbin/mariadbd"), "--no-defaults", *options, *_user()]

    def _is_ready(self) -> bool:
        with contextlib.suppress(InvalidInputError):
            return self.execute("SELECT 1") == "1\n"
        return False

    def _run(self, program: str, *options: str, sql: str = "") -> subprocess.CompletedProcess[str]:
        if not (_PLACE / "usr/sbin/mariadbd").exists():
            raise EnvironmentSetupError(f"MariaDB's programs are not in {_PLACE}", advice="Run tools/install_nightly_tools.sh")
        command = [str(_PLACE / "usr" / program), "--no-defaults", *options]
        return subprocess.run(command, input=sql, capture_output=True, text=True, env=_environ())


class MariaDbEngine(DebeziumEngine):
    """Debezium's engine with its connector for MariaDB."""

    _jars = _JARS
    _mark = (
        "CREATE TABLE IF NOT EXISTS headstream_marks (number bigint AUTO_INCREMENT PRIMARY KEY);"
        "INSERT INTO headstream_marks () VALUES () RETURNING number;"
    )

    def __init__(self, source: MariaDbServer, kafka: tuple[str, int], directory: Path) -> None:
        history = "io.debezium.storage.file.history.FileSchemaHistory"
        settings: dict[str, Any] = {
            "connector.class": "io.debezium.connector.mariadb.MariaDbConnector", "database.server.id": "77",
            "database.include.list": _DATABASE, "schema.history.internal": history,
            "schema.history.internal.file.filename": str(directory / "history.dat"), "database.ssl.mode": "disable",
        }  # fmt: skip
        super().__init__(source, kafka, settings=settings)


def _environ() -> dict[str, str]:
    return {**os.environ, "LD_LIBRARY_PATH": f"{_PLACE}/usr/lib/x86_64-linux-gnu:{_PLACE}/lib/x86_64-linux-gnu"}


def _user() -> list[str]:
    return ["--user=root"] if os.geteuid() == 0 else []


if _DIGESTS.exists():
    JAR_DIGESTS.update((line.split()[1], line.split()[0]) for line in _DIGESTS.read_text().splitlines())
