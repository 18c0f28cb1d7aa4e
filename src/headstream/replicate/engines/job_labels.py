"""Descriptions of a pipeline's jobs in Spark's web UI: table, step and micro-batch, as in `SHOP.orders: merge, micro-batch 12`.

A job has the description of the thread that starts it, in Python as in the JVM. Spark sets the property of the micro-batch's
thread, so it is restored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final, TypeAlias

from pyspark.sql import SparkSession

LabelJobs: TypeAlias = Callable[[str], AbstractContextManager[Any]]
"""A text -> a context in which the jobs of this thread have it as their description; it yields None, or what notes the result."""

GROUP: Final = "headstream-replicate"
"""The job group of jobs that write. That of the query would be cancelled when the query is stopped, in mid-merge."""
_DESCRIPTION: Final = "spark.job.description"
_GROUP_ID: Final = "spark.jobGroup.id"


def no_labels(text: str) -> AbstractContextManager[None]:
    """Return a context that labels nothing: a LabelJobs."""
    return nullcontext()


class JobLabels:
    """Labels the jobs that a thread starts; used by any thread. The session has its JVM in this process."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext

    def writing(self, text: str) -> AbstractContextManager[None]:
        """Return a context in which this thread's jobs have a description and the group GROUP."""
        return self._set({_DESCRIPTION: text, _GROUP_ID: GROUP})

    def reading(self, text: str) -> AbstractContextManager[None]:
        """Return a context in which this thread's jobs have a description, and the group of the query: they end with it."""
        return self._set({_DESCRIPTION: text})

    @contextmanager
    def _set(self, properties: dict[str, str]) -> Iterator[None]:
        before = {name: self._context.getLocalProperty(name) for name in properties}
        for name, value in properties.items():
            self._context.setLocalProperty(name, value)
        try:
            yield
        finally:
            for name, previous in before.items():
                self._context.setLocalProperty(name, previous)  # type: ignore[arg-type]  # None removes it
