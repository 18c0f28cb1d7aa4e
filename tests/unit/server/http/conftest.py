"""What tests of HTTP share: a server with one topic."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headstream.server.config.http_settings import HttpSettings
from tests.support.server.http_servers import Http, make_topic, serving


@pytest.fixture(scope="module")
def http() -> Iterator[Http]:
    with serving(HttpSettings(max_body_bytes=50_000)) as served:
        make_topic(served)
        yield served
