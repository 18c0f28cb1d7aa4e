"""What is logged of a disk that fails and of a damaged log, and how often."""

from __future__ import annotations

import logging

import pytest

from headstream.errors import CorruptLogError, DiskFullError, HeadstreamError, NotFoundError, PartitionClosedError
from headstream.server.reporting.storage_errors import StorageErrorLog


def test_a_trouble_is_logged_once_a_minute_for_each_place(caplog: pytest.LogCaptureFixture) -> None:
    now_s = 5.0
    storage_errors = StorageErrorLog(lambda: now_s)
    full = DiskFullError("no space", where="a.log", advice="Free space")
    seen: list[tuple[float, list[str]]] = []
    for now_s in (5.0, 64.9, 65.0):
        caplog.clear()
        for error in (full, full, PartitionClosedError("a sync failed", where="a.log"), CorruptLogError("bad", where="b.log")):
            storage_errors.log_once(error, 4006)
        seen.append((now_s, [record.getMessage() for record in caplog.records]))
    told = ["storage error"] * 2 + ["damaged log"]
    assert seen == [(5.0, told), (64.9, []), (65.0, told)]


def test_a_trouble_is_logged_with_what_an_operator_needs(caplog: pytest.LogCaptureFixture) -> None:
    StorageErrorLog().log_once(DiskFullError("no space", where="a.log", advice="Free space"), 4006)
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    wanted = {"status": 4006, "reason": "no space", "where": "a.log", "advice": "Free space"}
    assert vars(record)["fields"] == wanted


@pytest.mark.parametrize("error", [NotFoundError("nobody"), HeadstreamError("whatever")])
def test_log_once_logs_no_error_that_the_client_caused(error: HeadstreamError, caplog: pytest.LogCaptureFixture) -> None:
    StorageErrorLog().log_once(error, 1)
    assert caplog.records == []


def test_many_places_are_forgotten_rather_than_kept(caplog: pytest.LogCaptureFixture) -> None:
    storage_errors = StorageErrorLog(lambda: 0.0)
    for number in range(3000):
        storage_errors.log_once(DiskFullError("no space", where=f"{number}.log"), 4006)
    assert len(caplog.records) == 3000
    storage_errors.log_once(DiskFullError("no space", where="2999.log"), 4006)
    assert len(caplog.records) == 3000
