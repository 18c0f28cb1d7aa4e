"""Commits of Delta tables in S3 that the store refuses if they are already there: a class in Java for the driver.

ConditionalS3LogStore.java      its source
conditional-s3-log-store.jar    the same compiled for Java 17, by `python tools/build_s3_log_store.py`
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

__all__ = ["LOG_STORE_JAR", "LOG_STORE_SETTINGS"]

LOG_STORE_JAR: Final = Path(__file__).with_name("conditional-s3-log-store.jar")
_CLASS: Final = "headstream.ConditionalS3LogStore"
LOG_STORE_SETTINGS: Final = {f"spark.delta.logStore.{scheme}.impl": _CLASS for scheme in ("s3a", "s3")}
"""By which Delta writes its commits with that class, for each scheme of S3."""
