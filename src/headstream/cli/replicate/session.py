"""The Spark session of a command, and the display of progress on a terminal."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from headstream.cli.shared.parameters import Checked
from headstream.errors import InvalidInputError, JarsError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headstream.replicate.storage.places import Place


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name.startswith("spark.") and equals):
        raise InvalidInputError(f"{text!r} is not a Spark setting", advice="Write NAME=VALUE, for example spark.driver.memory=4g")
    return name, value


SPARK_SETTING: Final = Checked("setting", _setting)
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"


@contextmanager
def open_session(
    name: str, settings: Mapping[str, str], places: Iterable[Place], jar_sets: Sequence[str] = (), *, is_brief: bool = False
) -> Iterator[SparkSession]:
    """Yield a Spark session and stop it afterwards. If Spark has already stopped, an error of the body is still raised.

    Args:
        places: Where the session reads and writes tables; determines which object-store jars are loaded.
        is_brief: Whether the session runs at most hundreds of micro-batches, in which Java processes no rows. Java's second
            compiler (C2) would then take more time than it saves.
    """
    from headstream.replicate.storage.places import StorePlace
    from headstream.spark import session, stop
    from headstream.spark.sessions.given_settings import find_given, find_master
    from headstream.spark.sessions.spark_home import SESSION_VERSIONS, find_pyspark

    jars = {place.access.jars for place in places if isinstance(place, StorePlace)}
    given = find_given(os.environ, find_pyspark(SESSION_VERSIONS)) | dict(settings)
    chosen = None if "spark.app.name" in given else name
    if is_brief and re.match(r"local(\[|$)", find_master(given, os.environ)):
        settings = {**settings, _JAVA_OPTIONS: f"-XX:TieredStopAtLevel=1 {given.get(_JAVA_OPTIONS, '')}".rstrip()}
    with_jars = [*_available(sorted(found for found in jars if found is not None)), *jar_sets]
    spark = session(chosen, config=settings, with_jars=with_jars)
    try:
        yield spark
    except BaseException:
        with suppress(Exception):
            stop(spark)
        raise
    stop(spark)


def _available(names: Sequence[str]) -> list[str]:
    """Return the jar sets that the session has or can load. Without the other sets, `deltalake` can still merge."""
    from headstream.spark.sessions.jar_sets import SETS
    from headstream.spark.sessions.jars import fetch
    from headstream.spark.sessions.session import lacking_sets

    found = list(names)
    for jar_set in lacking_sets([SETS[name] for name in names]):
        try:
            fetch(jar_set=jar_set)
        except JarsError as error:
            message = "the jars of the set %s cannot be fetched, and without them Spark cannot write tables to this store: %s"
            logging.getLogger("headstream.replicate").warning(message, jar_set.name, error)
            found.remove(jar_set.name)
    return found


@contextmanager
def show_progress(first: str) -> Iterator[Callable[[str], None]]:
    """Yield a function that shows a progress line on a terminal (initially `first`); without a terminal it does nothing."""
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True, highlight=False).status(Text(first)) as status:
        yield lambda text: status.update(Text(text))
