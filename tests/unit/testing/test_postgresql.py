"""The PostgreSQL server that users get for their tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headstream.errors import ClosedError, EnvironmentSetupError, InvalidInputError
from headstream.testing import PostgresServer, postgresql
from tests.support.waiting import wait_until

_STARTER = """
import sys, time
from headstream.testing import PostgresServer
with PostgresServer(sys.argv[1]) as server:
    print(server.port, flush=True)
    time.sleep(300)
"""


def test_postgres_runs_statements_and_shows_why_one_is_rejected(postgres: PostgresServer) -> None:
    assert postgres.execute("SHOW wal_level") == "logical\n"
    assert postgres.execute("SELECT 1, 'two' UNION ALL SELECT 3, NULL") == "1|two\n3|\n"
    with pytest.raises(InvalidInputError, match='relation "nothing" does not exist'):
        postgres.execute("SELECT * FROM nothing")
    assert postgres.url.startswith(f"postgresql://{postgres.user}:{postgres.password}@127.0.0.1:{postgres.port}/")


def test_postgres_keeps_committed_rows_when_it_is_killed_and_leaves_nothing_when_it_stops(postgres: PostgresServer) -> None:
    with PostgresServer() as server:
        server.execute("CREATE TABLE kept (number int PRIMARY KEY); INSERT INTO kept VALUES (1)")
        port, home = server.port, server._directory
        server.kill()
        assert not server.is_running
        server.start()
        assert server.port == port
        assert server.execute("SELECT * FROM kept") == "1\n"
        assert home is not None
        segment = _segment(home)
        assert segment in _shared_memory()
        server.kill()
    assert not home.exists()
    assert segment not in _shared_memory()
    with pytest.raises(ClosedError, match="is not running"):
        _ = server.url


@pytest.mark.nightly
def test_postgres_leaves_nothing_behind_when_its_starter_is_killed(
    postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = Path(f"/tmp/headstream-test-{os.getpid()}")  # other users must be able to reach it
    place.mkdir()
    starter = subprocess.Popen([sys.executable, "-c", _STARTER, str(place)], stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    assert int(starter.stdout.readline()) > 0
    segment = _segment(next(place.iterdir()))
    os.kill(starter.pid, signal.SIGKILL)
    starter.communicate(timeout=60)
    wait_until(lambda: not list(place.iterdir()))
    place.rmdir()
    assert segment not in _shared_memory()


def test_find_postgresql_says_what_to_install_when_it_is_absent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(postgresql, "_DEBIAN", tmp_path)
    with pytest.raises(EnvironmentSetupError, match="apt-get install postgresql"), PostgresServer(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def _segment(home: Path) -> str:
    return (home / "data" / "postmaster.pid").read_text().splitlines()[6].split()[1]


def _shared_memory() -> set[str]:
    """Return the System V segments of the machine."""
    path = Path("/proc/sysvipc/shm")
    return {line.split()[1] for line in path.read_text().splitlines()[1:]} if path.exists() else set()
