"""The fixtures of `pytest_headstream`, for a conftest.py that imports this module, as version 0.1 required."""

from __future__ import annotations

from pytest_headstream import headstream_log, headstream_server, kafka_broker, postgres, source_database

__all__ = ["headstream_log", "headstream_server", "kafka_broker", "postgres", "source_database"]
