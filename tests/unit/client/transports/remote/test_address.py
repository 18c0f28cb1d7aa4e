"""URLs of servers: what they say, what the environment adds, what is refused without repeating a password."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from headstream.client.transports.remote.address import RemoteOptions, ServerUrl, parse_address
from headstream.client.transports.remote.backoff import Backoff
from headstream.errors import InvalidOptionError, InvalidUrlError

_ENVIRONMENT = {"HEADSTREAM_USERNAME": "ann", "HEADSTREAM_PASSWORD": "hidden"}


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("headstream://u:p@host", ServerUrl("headstream", "host", 8090, "u", "p")),
        ("headstream://u:p@ss/rest@host:1", ServerUrl("headstream", "host", 1, "u", "p@ss/rest")),
        ("headstream://u:p%40%2F@host:1", ServerUrl("headstream", "host", 1, "u", "p@/")),
        ("headstream://:tok@host", ServerUrl("headstream", "host", 8090, token="tok")),
        ("headstream://:a/b+c/=@host", ServerUrl("headstream", "host", 8090, token="a/b+c/=")),
        ("headstream://u:1/2@host:1", ServerUrl("headstream", "host", 1, "u", "1/2")),
        ("headstream://host/", ServerUrl("headstream", "host", 8090, "ann", "hidden")),
        ("headstream://bob@host", ServerUrl("headstream", "host", 8090, "bob", "hidden")),
        ("http://u:p@[::1]:3000", ServerUrl("http", "::1", 3000, "u", "p")),
        ("https://u:p@host", ServerUrl("https", "host", 443, "u", "p", options=RemoteOptions(tls=True))),
        (
            "headstream://u:p@host?tls=true&tls_domain=d&timeout_ms=7",
            ServerUrl("headstream", "host", 8090, "u", "p", options=RemoteOptions(tls=True, tls_domain="d", timeout_ms=7)),
        ),
    ],
)
def test_a_url_says_where_and_who(url: str, address: ServerUrl) -> None:
    assert parse_address(urlsplit(url), {}, _ENVIRONMENT) == address


def test_a_token_of_the_environment_stands_in_where_nobody_is_named() -> None:
    assert parse_address(urlsplit("headstream://host"), {}, {"HEADSTREAM_TOKEN": "t"}).token == "t"
    with pytest.raises(InvalidUrlError, match="the password is missing"):
        parse_address(urlsplit("headstream://bob@host"), {}, {"HEADSTREAM_TOKEN": "t"})


@pytest.mark.parametrize(
    ("url", "options", "text"),
    [
        ("headstream://host", {}, r"the user name is missing .*headstream://user:password@host:8090, or set HEADSTREAM_USERNAME"),
        ("headstream://u:secret@", {}, "the host is missing"),
        ("headstream://u:secret@host:99999", {}, "the port is invalid"),
        ("headstream://u:secret@host/shop", {}, "must not have a path"),
        ("headstream://u:12#secret@host", {}, "must not have a path.*write . as %3F, # as %23"),
        ("headstream://u:secret#x@host", {}, "the port is invalid"),
        ("headstream://u:12?secret@host", {}, "does not have this option"),
        ("headstream://u:secret@host?colour=red", {}, "no option 'colour'. Use one of tls"),
        ("headstream://u:secret@host?tls=yes", {}, "tls must be true or false, not 'yes'"),
        ("headstream://u:secret@host?timeout_ms=soon", {}, "timeout_ms must be a number of milliseconds, not 'soon'"),
        ("headstream://u:secret@host?timeout_ms=0", {}, "timeout_ms must be 1 to 3600000 ms, or a timedelta, not 0"),
        ("headstream://u:secret@host", {"tls": "false"}, "tls must be True or False, not 'false'"),
        ("headstream://u:secret@host", {"retry_timeout_ms": -1}, "or a timedelta, not -1"),
        ("headstream://u:secret@host?tls_domain=x", {}, "TLS options require TLS"),
        ("http://u:secret@host?tls=true", {}, "Use https://"),
    ],
)
def test_parse_address_refuses_invalid_addresses_without_showing_the_password(
    url: str, options: dict[str, object], text: str
) -> None:
    with pytest.raises((InvalidUrlError, InvalidOptionError), match=text) as caught:
        parse_address(urlsplit(url), options, {})
    assert "secret" not in str(caught.value)


def test_an_address_is_shown_without_credentials() -> None:
    for url in ("headstream://u:secret@host", "headstream://:secret@host"):
        address = parse_address(urlsplit(url), {}, {})
        assert "secret" not in repr(address) + address.place + address.who


def test_waits_double_up_to_a_bound_and_end_at_the_limit() -> None:
    backoff, now, waits = Backoff(30, lambda: 1.0), 0.0, []
    while (wait := backoff.next_wait(now)) is not None:
        waits.append(wait)
        now += wait
    assert waits[:7] == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0]
    assert now == pytest.approx(30)
    assert Backoff(30, lambda: 0.0).next_wait(5) == 0.025
    assert Backoff(0, lambda: 0.0).next_wait(5) is None
