"""Unit tests of headstream.core.wire.route_matching."""

from __future__ import annotations

import pytest

from headstream.core.wire.commands import messages
from headstream.core.wire.route_matching import find_methods, find_route
from headstream.errors import DecodeError


def test_flush_takes_the_path_of_the_existing_client() -> None:
    path = {"stream_id": "o", "topic_id": "e", "partition_id": "1", "fsync": "fsync=true"}
    assert messages.FlushMessages.from_json(path, {}, None) == messages.FlushMessages("o", "e", 1, True)


def test_find_route_prefers_literal_paths_and_tells_other_methods() -> None:
    found = find_route("DELETE", "/users/logout")
    assert found is not None
    assert found.entry.name == "user.logout"
    assert find_route("GET", "/nowhere") is None
    assert find_methods("/nowhere") == []
    assert find_methods("/streams") == ["GET", "POST"]
    with pytest.raises(DecodeError, match="UTF-8"):
        find_route("GET", "/streams/%ff")
