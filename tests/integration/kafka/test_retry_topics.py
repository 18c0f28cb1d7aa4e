"""The example of retry topics, over a real Kafka broker."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.kafka_cluster import empty_cluster

EXAMPLE = Path(__file__).parents[3] / "examples/retry_topics.py"


def test_retry_topics_try_again_and_give_up_over_kafka() -> None:
    with empty_cluster() as url:
        ran = subprocess.run([sys.executable, EXAMPLE, url], capture_output=True, text=True, timeout=300, check=False)
        assert ran.returncode == 0, ran.stderr
        assert "b'order 13' failed 3 times: ValueError: no such product" in ran.stdout
