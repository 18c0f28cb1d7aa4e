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

import pytest
from pyspark.sql import SparkSession

from headstream.errors import EnvironmentSetupError
from headstream.testing.postgresql import find_postgresql
from tests.campaigns.debezium_histories import DebeziumHistory
from tests.campaigns.runner import run_history

pytestmark = pytest.mark.spark

try:
    find_postgresql()
except EnvironmentSetupError as error:
    pytest.skip(str(error), allow_module_level=True)


def test_tables_equal_postgresql_after_a_random_history(spark: SparkSession) -> None:
    DebeziumHistory(1, spark).run(rounds=2)


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


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_tables_equal_postgresql_after_many_histories_with_kills() -> None:
    for seed in range(1, 201):
        run_history(DebeziumHistory, seed)
