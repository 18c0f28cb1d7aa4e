"""A SPARK_HOME of links to the installed PySpark, for the JVM of a local session.

    $XDG_CACHE_HOME/headstream/spark-home-<digest>/
        bin, jars              links into the installed pyspark
        log4j2.properties      errors only, to standard error
    $XDG_CACHE_HOME/headstream/spark-classes-<digest>.jsa      an archive of classes, if tools/class_archive.py has created one

Spark puts `SPARK_HOME/python/lib/pyspark.zip` first on the path of its Python workers. Importing from a zip without compiled
files takes seconds per worker. This SPARK_HOME has no zip, so workers import the installed package.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from headstream.errors import MissingExtraError
from headstream.spark.sessions.jars import cache_folder
from headstream.spark.sessions.java import Java

SPARK_VERSION: Final = "4.2"
"""The Spark version of the jars."""
SESSION_VERSIONS: Final = (SPARK_VERSION, "4.3")
"""Versions that session() and pipelines support, with admission control and AvailableNow for Python sources."""
SOURCE_VERSIONS: Final = ("4.0", "4.1", *SESSION_VERSIONS)
"""Versions in which the source and the sink run; see spark_versions.py for what earlier versions lack."""
LOG_SETTINGS_NAME: Final = "log4j2.properties"
_LOG_SETTINGS: Final = """\
rootLogger.level = error
# Spark compares this level with the root level, and logs a line if the levels differ.
logger.shell.name = org.apache.spark.api.python.PythonGatewayServer
logger.shell.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
# Spark logs these errors when a query is stopped during a micro-batch. The exception of a failed query is still raised.
appender.stderr.filter.stopped.type = RegexFilter
appender.stderr.filter.stopped.regex = (Aborting (task|commit)|Aborted commit|Data source write support .* abort).*
appender.stderr.filter.stopped.onMatch = DENY
appender.stderr.filter.stopped.onMismatch = NEUTRAL
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{yyyy-MM-dd HH:mm:ss} %p %c{1}: %m%n%ex{short}
"""
_INSTALL: Final = "Run: pip install 'headstream[spark]'"


def find_pyspark(versions: Sequence[str] = (SPARK_VERSION,)) -> Path:
    """Return the folder of the installed PySpark.

    Args:
        versions: The accepted versions, as MAJOR.MINOR.

    Raises:
        MissingExtraError: PySpark or PyArrow is not installed, or PySpark has another version.
    """
    try:
        import pyarrow  # noqa: F401
        import pyspark
    except ImportError as error:
        raise MissingExtraError(f"{error.name} is not installed", advice=_INSTALL) from None
    if not pyspark.__version__.startswith(tuple(f"{version}." for version in versions)):
        raise MissingExtraError(
            f"PySpark {pyspark.__version__} is installed, but {' or '.join(versions)} is required",
            where=pyspark.__file__,
            advice=_INSTALL,
        )
    return Path(pyspark.__file__).resolve().parent


def find_missing_jars() -> str:
    """Return an error description if there are no jars for the installed PySpark; otherwise ""."""
    import pyspark

    if pyspark.__version__.startswith(f"{SPARK_VERSION}."):
        return ""
    return f"there are no jars of Delta, Avro and Kafka for PySpark {pyspark.__version__}: only deltalake can merge tables"


def link_home(pyspark: Path) -> Path | None:
    """Return a SPARK_HOME without pyspark.zip, creating the folder if missing; None if the cache is not writable."""
    digest = hashlib.sha256(f"{pyspark}\n{_LOG_SETTINGS}".encode()).hexdigest()[:8]
    home = cache_folder() / f"spark-home-{digest}"
    if home.is_dir():
        return home
    with contextlib.suppress(OSError):  # another process was faster; without the folder, only the start is slower
        home.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".spark-home-", dir=home.parent) as work:
            made = Path(work, "home")
            made.mkdir()
            for name in ("bin", "jars"):
                (made / name).symlink_to(pyspark / name, target_is_directory=True)
            (made / LOG_SETTINGS_NAME).write_text(_LOG_SETTINGS)
            made.rename(home)
    return home if home.is_dir() else None


def archive_path(java: Java, pyspark: Path, jars: list[Path]) -> Path:
    """Return the path of the class archive for the given Java, PySpark and additional jars; the file may not exist."""
    parts = [str(java.executable.resolve()), str(java.version), str(pyspark), *map(str, jars)]
    return cache_folder() / f"spark-classes-{hashlib.sha256(os.pathsep.join(parts).encode()).hexdigest()[:8]}.jsa"
