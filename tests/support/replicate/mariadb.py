"""A real MariaDB in a temporary directory, and Debezium's engine for it.

tools/install_nightly_tools.sh unpacks its programs; without them a test is skipped. Debezium's connector is the one for MySQL,
since its own is in no registry in the engine's version.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path
from typing import Final

from headstream.errors import EnvironmentSetupError, InvalidInputError
from headstream.spark.sessions.jar_sets import DEBEZIUM, Jar, JarSet
from headstream.testing import DebeziumEngine
from headstream.testing.temporary_server import HOST, TemporaryServer, find_free_ports

__all__ = ["MariaDbEngine", "MariaDbServer"]

_PLACE: Final = Path(__file__).parents[3] / ".cache" / "mariadb"
_DATABASE: Final = "shop"
_CONNECTOR: Final = Jar("io.debezium", "debezium-connector-mysql", DEBEZIUM.jars[0].revision)


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

    def execute(self, sql: str) -> str:
        """Run statements and return their output: a line per row, columns separated by tabs."""
        login = [f"-h{HOST}", f"-P{self.port}", f"-u{self.user}", f"-p{self.password}", "--default-character-set=utf8mb4"]
        ran = _run("bin/mariadb", "--no-defaults", *login, "-N", "-B", _DATABASE, sql=sql)
        if ran.returncode != 0:
            raise InvalidInputError(f"MariaDB rejects the statement: {ran.stderr.strip()}")
        return ran.stdout

    def _prepare(self, directory: Path) -> None:
        if not (_PLACE / "usr/sbin/mariadbd").exists():
            raise EnvironmentSetupError("MariaDB is not installed", advice="Run tools/install_nightly_tools.sh")
        self._port = find_free_ports()[0]
        options = [f"--basedir={_PLACE / 'usr'}", f"--datadir={directory / 'data'}", "--auth-root-authentication-method=normal"]
        ran = _run("bin/mariadb-install-db", "--no-defaults", *options, "--skip-test-db", *_user())
        if ran.returncode != 0:
            raise EnvironmentSetupError(f"MariaDB's data directory could not be created: {ran.stdout}{ran.stderr}")
        (directory / "init.sql").write_text(
            f"GRANT ALL ON *.* TO root@'{HOST}' IDENTIFIED BY '{self.password}' WITH GRANT OPTION;\n"
            f"CREATE DATABASE IF NOT EXISTS {_DATABASE} CHARACTER SET utf8mb4;\n"
        )

    def _command(self, directory: Path) -> list[str]:
        settings = {
            "basedir": _PLACE / "usr", "datadir": directory / "data", "socket": directory / "socket", "port": self._port,
            "bind-address": HOST, "skip-name-resolve": 1, "server-id": 1,
            "log-bin": "bin", "binlog-format": "ROW", "binlog-row-image": "FULL",
            "innodb-flush-log-at-trx-commit": 0, "default-time-zone": "+00:00", "init-file": directory / "init.sql",
            # Debezium's connector for MySQL asks a later version in words of MySQL's, and one named MariaDB for GTIDs.
            "version": "5.7.10-log",
        }  # fmt: skip
        options = [f"--{name}={value}" for name, value in settings.items()]
        libraries = f"LD_LIBRARY_PATH={_environ()['LD_LIBRARY_PATH']}"
        return ["env", libraries, str(_PLACE / "usr/sbin/mariadbd"), "--no-defaults", *options, *_user()]

    def _is_ready(self) -> bool:
        with contextlib.suppress(InvalidInputError):
            return self.execute("SELECT 1") == "1\n"
        return False


class MariaDbEngine(DebeziumEngine):
    """Debezium's engine with its connector for MySQL, whose binary log MariaDB has."""

    _jars = JarSet("debezium-mysql", (DEBEZIUM.jars[0], _CONNECTOR, DEBEZIUM.jars[2]), transitive=True)
    _mark = (
        "CREATE TABLE IF NOT EXISTS headstream_marks (number bigint AUTO_INCREMENT PRIMARY KEY);"
        "INSERT INTO headstream_marks () VALUES () RETURNING number;"
    )

    def __init__(self, source: MariaDbServer, kafka: tuple[str, int], directory: Path) -> None:
        settings = {
            "connector.class": "io.debezium.connector.mysql.MySqlConnector", "database.server.id": "77",
            "database.dbname": _DATABASE, "database.include.list": _DATABASE, "schema.include.list": "",
            "database.ssl.mode": "disabled",
            "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
            "schema.history.internal.file.filename": str(directory / "history.dat"),
        }  # fmt: skip
        super().__init__(source, kafka, settings=settings)


def _run(program: str, *options: str, sql: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(_PLACE / "usr" / program), *options], input=sql, capture_output=True, text=True, env=_environ())


def _environ() -> dict[str, str]:
    folders = [f"{_PLACE}/{folder}/x86_64-linux-gnu" for folder in ("usr/lib", "lib")]
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(folders)}


def _user() -> list[str]:
    return ["--user=root"] if os.geteuid() == 0 else []
