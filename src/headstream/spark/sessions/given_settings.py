"""Spark settings that a user or a cluster set before session() is called; they override the defaults of session().

spark-submit job.py             options of spark-submit and spark-defaults.conf, in the running JVM
python job.py                   $SPARK_CONF_DIR or $SPARK_HOME/conf, spark-defaults.conf; $PYSPARK_SUBMIT_ARGS overrides it
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from headstream.errors import EnvironmentSetupError

_DEFAULTS_NAME: Final = "spark-defaults.conf"
_SUBMIT_ARGUMENTS: Final = "PYSPARK_SUBMIT_ARGS"
_OPTIONS: Final = {
    "--master": "spark.master",
    "--name": "spark.app.name",
    "--jars": "spark.jars",
    "--driver-memory": "spark.driver.memory",
    "--driver-java-options": "spark.driver.extraJavaOptions",
    "--driver-class-path": "spark.driver.extraClassPath",
    "--executor-memory": "spark.executor.memory",
    "--executor-cores": "spark.executor.cores",
    "--total-executor-cores": "spark.cores.max",
    "--num-executors": "spark.executor.instances",
}
"""Options of spark-submit, and the settings that they set."""
_LINE: Final = re.compile(r"\s*(spark\.[^\s=:]+)\s*[\s=:]\s*(.*?)\s*")

_launched: dict[str, str] = {}
"""Settings with which this process started its JVM. The JVM cannot distinguish them from settings of spark-submit."""


def note_launched(settings: Mapping[str, str]) -> None:
    """Remember the settings with which session() started the JVM."""
    _launched.clear()
    _launched.update(settings)


def conf_directory(environ: Mapping[str, str], pyspark: Path) -> Path:
    """Return the directory of Spark's configuration, which may not exist; `pyspark` is the default SPARK_HOME."""
    named = environ.get("SPARK_CONF_DIR")
    return Path(named) if named else Path(environ.get("SPARK_HOME") or pyspark) / "conf"


def find_given(environ: Mapping[str, str], pyspark: Path) -> dict[str, str]:
    """Return the settings that were set before session() is called.

    Raises:
        EnvironmentSetupError: spark-defaults.conf or PYSPARK_SUBMIT_ARGS cannot be read.
    """
    from pyspark import SparkConf, SparkContext

    if SparkContext._gateway is None and "PYSPARK_GATEWAY_PORT" in environ:
        SparkContext._ensure_initialized()
    if SparkContext._gateway is not None:
        return {key: value for key, value in SparkConf().getAll() if _launched.get(key) != value}
    arguments = environ.get(_SUBMIT_ARGUMENTS, "")
    try:
        submitted = _read_arguments(shlex.split(arguments))
    except ValueError as error:
        raise EnvironmentSetupError(f"{_SUBMIT_ARGUMENTS} cannot be read: {error}", where=arguments) from None
    named = submitted.pop("--properties-file", None)
    path = conf_directory(environ, pyspark) / _DEFAULTS_NAME if named is None else Path(named)
    return _read_defaults(path) | submitted


def find_master(settings: Mapping[str, str], environ: Mapping[str, str]) -> str:
    """Return the master in the settings, or else in SPARK_MASTER, or else this machine."""
    return settings.get("spark.master") or environ.get("SPARK_MASTER") or "local[*]"


def _read_arguments(arguments: list[str]) -> dict[str, str]:
    """Return the settings in arguments of spark-submit; the key of the properties file is `--properties-file`."""
    found: dict[str, str] = {}
    words = iter(arguments)
    for word in words:
        option, equals, value = word.partition("=")
        if option in ("--conf", "-c"):
            key, _, text = (value if equals else next(words, "")).partition("=")
            found[key.strip()] = text
        elif option in _OPTIONS or option == "--properties-file":
            found[_OPTIONS.get(option, option)] = value if equals else next(words, "")
    return found


def _read_defaults(path: Path) -> dict[str, str]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise EnvironmentSetupError(f"Spark's settings cannot be read: {error}", where=str(path)) from error
    matches = (_LINE.fullmatch(line) for line in text.splitlines())
    return {match[1]: match[2] for match in matches if match is not None}
