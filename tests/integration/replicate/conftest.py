"""One object store per file of tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.replicate.s3_server import S3Server


@pytest.fixture(scope="module")
def running() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


@pytest.fixture
def server(running: S3Server) -> Iterator[S3Server]:
    yield running
    running.recover()
