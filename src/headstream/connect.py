"""connect(): from a URL to a client, the one place that chooses what is behind it.

file:///var/lib/shop               an embedded log in a directory, which is made at the first write
memory://                          an embedded log in the memory of this process, which nobody else sees
memory://name                      one that all who give the name share, for as long as one of them has it open
headstream://user:password@host    a server over TCP, port 8090; encrypted with ?tls=true
quic://user:password@host          a server over QUIC, port 8080, always encrypted
http://user:password@host:3000     a server over HTTP, https:// encrypted
"""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import SplitResult, unquote, urlsplit

from headstream.codec.mode import warn_if_interpreted
from headstream.errors import InvalidOptionError, InvalidUrlError

if TYPE_CHECKING:
    from headstream.client.async_client import AsyncClient
    from headstream.client.client import Client

__all__ = ["URL_VARIABLE", "connect", "connect_async"]

URL_VARIABLE: Final = "HEADSTREAM_URL"
_KINDS: Final = "file:///directory, memory:// or headstream://user:password@host:8090"
_ELSEWHERE: Final = ("headstreams", "iggy", "iggy+tcp", "tcp")
_SERVERS: Final = ("headstream", "http", "https", "quic")
_EMBEDDED_OPTIONS: Final = ("segment_bytes", "group_access")
_REMOTE_OPTIONS: Final = (
    "tls",
    "tls_verify",
    "tls_ca_file",
    "tls_domain",
    "connect_timeout_ms",
    "timeout_ms",
    "retry_timeout_ms",
)


def connect(url: str | None = None, **options: Any) -> Client:
    """Return a client of the log at a URL.

    Args:
        url: `file:///directory`, `memory://`, `memory://name`, `headstream://user:password@host:8090` (TCP),
            `quic://user:password@host:8080` or `http(s)://user:password@host`; the environment's HEADSTREAM_URL where none is
            given. Credentials may stand in HEADSTREAM_USERNAME and HEADSTREAM_PASSWORD; `:token@` is a personal access token.
        **options: For an embedded log `segment_bytes`, the size at which a partition's file is followed by a new one
            (4 KiB to 2 GiB; 256 MiB unless said otherwise), and for one in a directory `group_access`: what the directory's
            group may do with the files of a log that is made, `none` (the default), `read` or `write`. For a server, also in
            the URL's query: `tls` and `tls_verify` (true or false), `tls_ca_file`, `tls_domain`, `connect_timeout_ms`,
            `timeout_ms` (of an answer), `retry_timeout_ms` (for how long a connection that broke is made again).

    Raises:
        InvalidUrlError: the URL cannot be used.
        InvalidOptionError: an option is unknown or out of range.
        NotALogError: there is something else in the directory.
        LogVersionError: a newer Headstream wrote it.
        StorageError: the directory cannot be read.
        ServerUnreachableError: the server cannot be reached.
        AuthenticationError: the server does not know the user, or the password is wrong.
    """
    client = _make(url, options)
    client.open()
    return client


def connect_async(url: str | None = None, **options: Any) -> AsyncClient:
    """Return an asynchronous client of the log at a URL: `async with connect_async(url) as log`.

    A server is connected to when the client is first used, or entered.

    Args:
        url: As for connect().
        **options: As for connect().
    """
    from headstream.client.async_client import AsyncClient  # asyncio costs as much to import as all of the rest

    return AsyncClient(_make(url, options))


def _make(url: str | None, options: dict[str, Any]) -> Client:
    text, parts = _parse(url)
    warn_if_interpreted()
    if parts.scheme in _SERVERS:
        _check_options(options, _REMOTE_OPTIONS)
        return _make_remote(parts, options)
    _check_options(options, _EMBEDDED_OPTIONS)
    if parts.query or parts.fragment:
        raise InvalidUrlError(
            f"{text!r} has a part after the path", advice="Options are arguments of connect(); write ? as %3F and # as %23"
        )
    return _make_embedded(text, parts, options)


def _parse(url: str | None) -> tuple[str, SplitResult]:
    """Return a URL without its password, and its parts."""
    text = os.environ.get(URL_VARIABLE, "") if url is None else url
    if not text:
        raise InvalidUrlError("there is no URL to connect to", advice=f"Give one ({_KINDS}), or set {URL_VARIABLE}")
    try:
        parts = urlsplit(text)
    except ValueError as error:
        raise InvalidUrlError(f"this is not a URL: {error}", advice=f"Use {_KINDS}") from None
    if "@" in text and "://" in text and parts.scheme not in ("file", "memory"):
        # What is said about the URL must not repeat its password, which may have slashes and more signs of that kind.
        text = f"{parts.scheme}://...{text[text.rindex('@') :]}"
    elif "@" in parts.netloc:
        text = parts._replace(netloc="..." + parts.netloc[parts.netloc.rindex("@") :]).geturl()
    return text, parts


def _check_options(options: dict[str, Any], known: tuple[str, ...]) -> None:
    for name in options:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            advice = f"Did you mean {close[0]!r}?" if close else f"There is {', '.join(known)}"
            raise InvalidOptionError(f"connect() has no option {name!r}", advice=advice)


def _make_remote(parts: SplitResult, options: dict[str, Any]) -> Client:
    # What a server needs is not imported for a log in a directory, nor the other way round.
    from headstream.client.client import Client
    from headstream.client.remote.address import parse_address
    from headstream.client.remote.caller import Caller
    from headstream.client.remote.server import Server
    from headstream.client.remote.transport import RemoteTransport, connector_of

    address = parse_address(parts, options)
    caller = Caller(address, connector_of(address))
    return Client(RemoteTransport(caller), Server(caller))


def _make_embedded(text: str, parts: SplitResult, options: dict[str, Any]) -> Client:
    from headstream.broker.broker import Broker
    from headstream.client.client import Client
    from headstream.log.opening import open_directory, open_memory

    if parts.scheme == "file":
        return Client(Broker(open_directory(_directory(text, parts), **options)))
    if parts.scheme == "memory":
        if parts.path.strip("/"):
            raise InvalidUrlError(f"{text!r} has a path, a log in memory has a name", advice="Use memory://name")
        _check_options(options, _EMBEDDED_OPTIONS[:1])
        return Client(Broker(open_memory(unquote(parts.netloc) or None, **options)))
    raise _refusal(text, parts)


def _directory(text: str, parts: SplitResult) -> str:
    path = unquote(parts.path)
    if parts.netloc not in ("", "localhost") or not path.startswith("/"):
        absolute = Path(unquote(parts.netloc) + path).expanduser().absolute()
        raise InvalidUrlError(f"{text!r} is not an absolute path", advice=f"Three slashes: {absolute.as_uri()}")
    if "\0" in path:
        raise InvalidUrlError(f"{text!r} has a NUL in its path", advice="Name a directory")
    return path


def _refusal(text: str, parts: SplitResult) -> InvalidUrlError:
    if parts.scheme == "kafka":
        advice = 'Use Spark, as in spark.readStream.format("headstream").option("url", "kafka://host:9092"), or ' + _KINDS
        return InvalidUrlError("Kafka is read and written through Spark, not by connect()", where=text, advice=advice)
    if parts.scheme in _ELSEWHERE:
        return InvalidUrlError(f"this build has no transport for {parts.scheme}:// yet", where=text, advice=f"Use {_KINDS}")
    if not parts.scheme or "://" not in text:
        return InvalidUrlError(f"{text!r} is not a URL", advice=f"For a directory write {Path(text).absolute().as_uri()}")
    return InvalidUrlError(f"{parts.scheme}:// is not a kind of log", where=text, advice=f"Use {_KINDS}")
