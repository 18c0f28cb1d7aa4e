"""Compile Delta's log for S3, of src/headstream/spark/sessions/s3_commits, into the jar beside it; needs `javac`.

    python tools/build_s3_log_store.py

The same compiler writes the same bytes: classes for Java 17, one fixed time for the files of the jar.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import zipfile
from pathlib import Path

import pyspark

from headstream.spark.sessions.jar_sets import S3, SPARK
from headstream.spark.sessions.jars import fetch
from headstream.spark.sessions.s3_commits import LOG_STORE_JAR

__all__ = ["build"]


def build(jar: Path) -> None:
    """Compile the source into a jar.

    Args:
        jar: The file to write.
    """
    source = LOG_STORE_JAR.with_name("ConditionalS3LogStore.java")
    needed = [
        *fetch(jar_set=SPARK),
        *fetch(jar_set=S3),
        *(Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar"),
    ]
    with tempfile.TemporaryDirectory() as work:
        path = os.pathsep.join(map(str, needed))
        subprocess.run(["javac", "--release", "17", "-cp", path, "-d", work, str(source)], check=True)
        with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as archive:
            for found in sorted(Path(work).rglob("*.class")):
                entry = zipfile.ZipInfo(found.relative_to(work).as_posix(), (2026, 1, 1, 0, 0, 0))
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, found.read_bytes())


if __name__ == "__main__":
    build(LOG_STORE_JAR)
