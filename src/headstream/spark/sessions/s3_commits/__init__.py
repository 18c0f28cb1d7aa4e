"""A Java class for the driver that makes a commit to a Delta table in S3 fail if the commit already exists.

ConditionalS3LogStore.java      source
conditional-s3-log-store.jar    compiled for Java 17, by `python tools/build_s3_log_store.py`
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

__all__ = ["LOG_STORE_JAR", "LOG_STORE_SETTINGS"]

LOG_STORE_JAR: Final = Path(__file__).with_name("conditional-s3-log-store.jar")
_CLASS: Final = "headstream.ConditionalS3LogStore"
LOG_STORE_SETTINGS: Final = {f"spark.delta.logStore.{scheme}.impl": _CLASS for scheme in ("s3a", "s3")}
"""Spark settings that make Delta write its commits with this class, for each scheme of S3."""
