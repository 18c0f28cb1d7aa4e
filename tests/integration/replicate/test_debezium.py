"""Tables equal a real PostgreSQL whose changes a real Debezium sends to the listener for Kafka's clients."""

from __future__ import annotations

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


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_tables_equal_postgresql_after_many_histories_with_kills() -> None:
    for seed in range(1, 201):
        run_history(DebeziumHistory, seed)
