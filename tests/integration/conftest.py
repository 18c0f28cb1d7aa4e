"""One Spark session and one Kafka broker for the whole run: starting them costs more than most tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headstream.errors import JavaError
from headstream.replicate.settings.merge_settings import MergeSettings
from headstream.replicate.settings.table_settings import TableSettings
from headstream.spark import session, stop
from headstream.spark.sessions.jar_sets import MARIADB, POSTGRESQL, S3
from headstream.spark.sessions.jars import fetch
from headstream.spark.sessions.s3_commits import LOG_STORE_JAR, LOG_STORE_SETTINGS
from headstream.spark.sessions.spark_home import SPARK_VERSION
from headstream.testing import KafkaBroker
from headstream.testing.local_server import LocalServer
from tests.support.kafka_cluster import shared_broker
from tests.support.lean_spark import LEAN
from tests.support.replicate.plain_engine import STRATEGY, next_strategy
from tests.support.tiers import FIRST_TIER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["kafka_broker", "spark", "stopped", "url"]


@pytest.fixture(scope="session")
def spark(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Return the session: two cores, made for a quick start, with the jars in the version of Spark that they are for.

    At night it has the settings that users have.
    """
    pyspark = pytest.importorskip("pyspark")
    jars = pyspark.__version__.startswith(SPARK_VERSION)
    lean = LEAN if pytestconfig.option.markexpr == FIRST_TIER else {}
    # Beside the JVM's class path, not on it: the session uses the archive of the classes of Spark's own set.
    sets = () if not jars else (S3, POSTGRESQL) if lean else (S3, POSTGRESQL, MARIADB)
    more = [str(path) for jar_set in sets for path in fetch(jar_set=jar_set)]
    config = lean | LOG_STORE_SETTINGS | {"spark.jars": ",".join([*more, str(LOG_STORE_JAR)] if more else [])}
    config["spark.sql.warehouse.dir"] = str(tmp_path_factory.mktemp("warehouse"))
    try:
        started = session("headstream-tests", master="local[2]", quick_start=True, config=config, jars=jars)
    except JavaError as error:
        pytest.skip(str(error))
    yield started
    stop(started)


@pytest.fixture
def stopped(spark: SparkSession) -> Iterator[None]:
    """Stop what a failing test leaves running."""
    yield
    for query in spark.streams.active:
        query.stop()


@pytest.fixture(scope="session")
def kafka_broker() -> KafkaBroker:
    """Return the broker that the tests of `empty_cluster` have too; a test makes the topics that it needs."""
    return shared_broker()


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Give the URL of a log that is not there yet; parametrized as `tcp`, that of a server that has it in the same directory."""
    if getattr(request, "param", "file") == "file":
        yield (tmp_path / "log").as_uri()
    else:
        with LocalServer(tmp_path / "log") as server:
            yield server.url


@pytest.fixture(autouse=True)
def merge_strategy_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the tables of pipelines be merged by STRATEGY where a test does not say how."""
    if STRATEGY not in os.environ:
        return
    make_tables, make_merges = TableSettings.__init__, MergeSettings.__init__

    def make_table_settings(settings: TableSettings, **given: Any) -> None:
        make_tables(settings, **{"merge_strategy": next_strategy()} | given)

    def make_merge_settings(settings: MergeSettings, **given: Any) -> None:
        make_merges(settings, **{"rewrite_below": 0} | given)

    monkeypatch.setattr(TableSettings, "__init__", make_table_settings)
    monkeypatch.setattr(MergeSettings, "__init__", make_merge_settings)
