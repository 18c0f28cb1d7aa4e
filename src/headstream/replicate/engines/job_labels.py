"""Describes a pipeline's jobs in Spark's web UI by table, step and micro-batch: `SHOP.orders: merge, micro-batch 12`.

A job has the description of the thread that starts the job, in Python and in the JVM. Spark has already set a description for the
micro-batch's thread; each context of this module restores it at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final, TypeAlias

from pyspark.sql import SparkSession

LabelJobs: TypeAlias = Callable[[str], AbstractContextManager[Any]]
"""Returns a context in which this thread's jobs have a description; the context yields None or a recorder of the result."""

GROUP: Final = "headstream-replicate"
"""The job group of writing jobs. The query's own group is cancelled when the query is stopped, even during a merge."""
_DESCRIPTION: Final = "spark.job.description"
_GROUP_ID: Final = "spark.jobGroup.id"


def no_labels(text: str) -> AbstractContextManager[None]:
    """Return a context without labels; can be used as LabelJobs."""
    return nullcontext()


class JobLabels:
    """Labels the jobs that a thread starts; thread-safe. Requires a classic session, not Spark Connect."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext

    def writing(self, text: str) -> AbstractContextManager[None]:
        """Return a context that gives this thread's jobs a description and the group GROUP."""
        return self._set({_DESCRIPTION: text, _GROUP_ID: GROUP})

    def reading(self, text: str) -> AbstractContextManager[None]:
        """Return a context that gives this thread's jobs a description and the query's group, so they end with the query."""
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
