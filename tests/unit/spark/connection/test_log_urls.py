"""Which log the option url names, who asks, and that no password is repeated."""

from __future__ import annotations

import pickle

import pytest

from headstream.client.transports.remote.address import ServerUrl
from headstream.errors import InvalidUrlError
from headstream.spark.connection.log_urls import parse_log


def test_a_server_is_named_with_who_asks() -> None:
    address = parse_log({"url": "headstream://ann:p%40ss-77@example:8091?tls=true"})
    assert isinstance(address, ServerUrl)
    assert (address.host, address.port, address.username, address.password) == ("example", 8091, "ann", "p@ss-77")
    assert address.options.tls
    assert pickle.loads(pickle.dumps(address)) == address  # as it travels to the executors
    assert "p@ss" not in repr(address)


def test_credentials_can_come_from_the_drivers_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidUrlError, match="the user name is missing"):
        parse_log({"url": "headstream://example"})
    monkeypatch.setenv("HEADSTREAM_USERNAME", "ann")
    monkeypatch.setenv("HEADSTREAM_PASSWORD", "secret")
    address = parse_log({"path": "headstream://example"})
    assert isinstance(address, ServerUrl)
    assert (address.username, address.password, address.port) == ("ann", "secret", 8090)


@pytest.mark.parametrize(
    ("url", "what"),
    [
        ("http://ann:secret@example:3000", r"'http://example:3000': Spark connects to a server over TCP"),
        ("headstreams://ann:secret@example", "'headstreams://example' is not a log that Spark can read"),
        ("file://ann:secret@example/x", "'file://example/x' is not a directory on this machine"),
        ("kafka://ann:secret@example", "'kafka://example': Kafka can be used only through DataFrames"),
        ("kafka://ann:s/secret@example:9092", "'kafka://example:9092': Kafka can be used only through DataFrames"),
        ("headstream://ann:secret@example:8090/shop", "a server's URL must not have a path"),
        ("headstream://ann:secret@[::1", "is not a URL"),
        ("headstream://ann:secret@example:99999", "the port is invalid"),
    ],
)
def test_a_url_that_cannot_be_used_is_named_without_its_password(url: str, what: str) -> None:
    with pytest.raises(InvalidUrlError, match=what) as raised:
        parse_log({"url": url})
    assert "secret" not in str(raised.value)
