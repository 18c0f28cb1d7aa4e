"""Unit tests of headstream.server.http.console.files."""

from __future__ import annotations

import gzip
import re

from headstream.server.http.console.files import ConsoleFiles
from tests.support.server.http_servers import Http


def test_console_is_less_than_300_kb_gzipped_and_is_sent_gzipped_if_accepted(http: Http) -> None:
    files = ConsoleFiles()
    page = files.find("GET", "/console/")
    assert page is not None
    paths = ["/console/", *(f"/console/{place}" for place in re.findall(r'="\./([^"]+)"', page.body.decode()))]
    total = 0
    for path in paths:
        plain, packed = files.find("GET", path), files.find("GET", path, "gzip, br")
        assert plain is not None
        assert packed is not None
        assert gzip.decompress(packed.body) == plain.body
        total += len(packed.body)
    assert total < 300_000
    answer = http.call("GET", paths[1], token=None, headers={"accept-encoding": "gzip"})
    assert answer.headers["Content-Encoding"] == "gzip"
    assert "accept-encoding" in answer.headers["Vary"]
