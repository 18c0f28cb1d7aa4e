"""Tables equal a real PostgreSQL whose changes a real Debezium sends to the listener for Kafka's clients."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from headstream.connect import connect
from headstream.errors import EnvironmentSetupError
from headstream.replicate.compare.source_database import JdbcAccess
from headstream.replicate.compare.tables import compare_tables
from headstream.replicate.run.pipeline import ReplicatePipeline
from headstream.replicate.settings.config import ReplicateConfig
from headstream.replicate.settings.debezium_settings import DebeziumSettings
from headstream.replicate.settings.table_settings import TableRules
from headstream.testing import LocalServer
from headstream.testing.postgresql import find_postgresql
from tests.campaigns.debezium_histories import DebeziumHistory
from tests.campaigns.runner import run_history
from tests.support.replicate.mariadb import MariaDbEngine, MariaDbServer

pytestmark = pytest.mark.spark

try:
    find_postgresql()
except EnvironmentSetupError as error:
    pytest.skip(str(error), allow_module_level=True)


def test_tables_equal_postgresql_after_a_random_history(spark: SparkSession) -> None:
    DebeziumHistory(1, spark, width=1).run(rounds=2)


@pytest.mark.nightly
@pytest.mark.parametrize("is_interrupted", [False, True])
def test_postgres_demo_shows_equal_tables_and_leaves_nothing_behind(is_interrupted: bool) -> None:
    place = Path(tempfile.mkdtemp(dir="/tmp"))
    place.chmod(0o777)  # the user of PostgreSQL's server must be able to reach it
    command = [sys.executable, "-m", "headstream.cli", "demo", "--postgres"]
    demo = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, "TMPDIR": str(place)}
    )
    assert demo.stdout is not None
    shown = ""
    while is_interrupted and "2. Debezium" not in shown:
        shown += demo.stdout.readline()
    if is_interrupted:
        demo.send_signal(signal.SIGINT)
    shown += demo.communicate(timeout=600)[0]
    left = [path.name for path in place.iterdir()]
    shutil.rmtree(place)
    assert (demo.returncode != 0, "Traceback" in shown) == (is_interrupted, False), shown
    assert [name for name in left if name.startswith("headstream-")] == []
    if not is_interrupted:
        assert re.findall(r"public\.(\w+)\W+([\d,]+)\W+([\d,]+)\W+equal", shown) == [
            ("customers", "200", "200"), ("orders", "901", "901")
        ]  # fmt: skip
        first, second = re.findall(r": +(15\|.*)", shown)
        assert first == second


_MARIADB = """
CREATE TABLE things (id bigint PRIMARY KEY, small tinyint, big int unsigned, n decimal(20,4), d double, v varchar(40),
  c char(5), t longtext, raw varbinary(20), day date, at time(6), seen timestamp(6) NULL, local datetime(6), m enum('sad', 'ok'));
CREATE TABLE pairs (region varchar(5) COLLATE utf8mb4_bin, no int, note text, PRIMARY KEY (region, no));
"""


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_tables_equal_mariadb_when_its_engine_is_killed(spark: SparkSession, tmp_path: Path) -> None:
    source = MariaDbServer()
    try:
        source.start()
    except EnvironmentSetupError as error:
        pytest.skip(str(error))
    topics = ("shop/shop.things", "shop/shop.pairs")
    with source, LocalServer(tmp_path / "log", kafka=True) as server:
        source.execute(_MARIADB)
        with connect(server.url) as log:
            for topic in (*topics, "shop/transaction", "kafka/shop"):
                log.create_topic(topic, partitions=2, limits="wide")
        rng = Random(1)
        source.execute(_mariadb_work(rng, 40))
        with MariaDbEngine(source, server.kafka_address, tmp_path) as engine:
            for _ in range(2):
                engine.flush()
                engine.kill()
                source.execute(_mariadb_work(rng, 40))
                engine.start()
            engine.flush()
            source.execute("ALTER TABLE things ADD COLUMN added varchar(9), DROP COLUMN v")
            source.execute("UPDATE things SET added = 'y' WHERE id % 2 = 0; UPDATE things SET n = n + 1")
            engine.flush()
        config = ReplicateConfig(
            source=server.url, topics=(*topics, "kafka/shop"), debezium=DebeziumSettings(), tables=tmp_path / "tables",
            checkpoint=tmp_path / "checkpoint", once=True,
        )  # fmt: skip
        summary = ReplicatePipeline(spark, config).run()
        assert (summary.dead, summary.parked) == (0, 0)
        access = JdbcAccess.parse(source.url)
        found = [one.result for one in compare_tables(
            spark, access, tmp_path / "tables", TableRules(), lambda: tmp_path / "checkpoint")]  # fmt: skip
        assert {one.table: (one.error, one.differences) for one in found} == {"shop.pairs": (None, []), "shop.things": (None, [])}
        assert all(one.rows[0] > 5 for one in found)


def _mariadb_work(rng: Random, steps: int) -> str:
    """Return statements that insert, update, delete and move rows."""
    statements = []
    for _ in range(steps):
        key, text = rng.randint(1, 12), rng.choice(["", "a''b", "Zürich", "null", "x" * 30])
        values = (
            f"{rng.randint(-128, 127)}, {rng.randint(0, 2**32 - 1)}, {rng.randint(-(10**9), 10**9)}.1250, {rng.random()}, "
            f"'{text}', 'ab', '{text * 50}', x'{rng.randbytes(4).hex()}', '{rng.randint(1900, 2200)}-02-28', "
            f"'-113:59:0{key % 9}.5', '2026-0{key % 9 + 1}-01 10:00:00.000{key}', '19{key + 50}-01-01 00:00:00.123456', "
            f"'{rng.choice(['sad', 'ok'])}'"
        )
        statements += rng.choice([
            [f"REPLACE INTO things VALUES ({key}, {values})"],
            [f"UPDATE things SET n = NULL, t = '{text}' WHERE id = {key}"],
            [f"UPDATE IGNORE things SET id = {rng.randint(1, 12)} WHERE id = {key}"],
            ["BEGIN", f"DELETE FROM things WHERE id = {key}", f"INSERT INTO things (id, c) VALUES ({key}, NULL)", "COMMIT"],
            [f"INSERT INTO pairs VALUES ('{'NÖ'[key % 2]}', {key}, '{text}') ON DUPLICATE KEY UPDATE note = 'again'"],
            [f"UPDATE IGNORE pairs SET region = 'moved' WHERE no = {key}"],
            [f"DELETE FROM pairs WHERE no = {key}"],
        ])  # fmt: skip
    return ";\n".join(statements) + ";"


@pytest.mark.soak
def test_tables_equal_postgresql_after_many_histories_with_kills() -> None:
    for seed in range(1, 201, DebeziumHistory.width):
        run_history(DebeziumHistory, seed)
