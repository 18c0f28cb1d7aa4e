"""Samples of a log: its topics, their groups, and the load of its server."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headstream.cli.top.rates import Sample
from headstream.client.transports.remote.address import SCHEMES
from headstream.errors import NotFoundError, PermissionDeniedError, UnsupportedError

if TYPE_CHECKING:
    from headstream.client.client import Client

__all__ = ["read_sample"]

_SERVER_COUNTS: Final = (
    *("memory_bytes", "cpu_usage", "clients_count", "streams_count", "topics_count", "partitions_count"),
    *("messages_count", "messages_size_bytes", "groups_count"),
)


def read_sample(log: Client, url: str, topics: Iterable[str], checkpoints: Mapping[str, Callable[[], Path]]) -> Sample:
    """Return what a log says now.

    Args:
        log: The log.
        url: Its URL.
        topics: The topics whose groups are read, one request each.
        checkpoints: The checkpoints of Replicate pipelines, each with a function that returns a directory with its newest ledger.
    """
    found = tuple(log.topics())
    groups = []
    for name in topics:
        with suppress(NotFoundError, PermissionDeniedError):  # deleted just now, or only to be polled
            groups += log.groups(name)
    return Sample(
        time_us=time.time_ns() // 1000,
        topics=found,
        groups=tuple(groups),
        server=_read_server(log, url),
        pipelines={name: _read_pipeline(read()) for name, read in checkpoints.items()},
    )


def _read_server(log: Client, url: str) -> dict[str, Any]:
    scheme = url.partition(":")[0]
    if scheme == "kafka":
        return asdict(log.cluster_stats())
    if scheme not in SCHEMES:
        return {}
    try:
        stats = log.server.stats()
    except (PermissionDeniedError, UnsupportedError):
        return {}
    return {name: getattr(stats, name) for name in _SERVER_COUNTS}


def _read_pipeline(checkpoint: Path) -> dict[str, Any]:
    from headstream.replicate.parked.ledger import Ledger
    from headstream.replicate.run.status import read_status

    with closing(Ledger(checkpoint / "ledger.sqlite", read_only=True)) as ledger:
        return read_status(ledger, time.time_ns() // 1000)
