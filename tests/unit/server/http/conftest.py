"""What tests of HTTP share: a server with nothing on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.server.http_servers import Http, serving


@pytest.fixture(scope="module")
def http() -> Iterator[Http]:
    with serving() as served:
        yield served
