"""connect(): chooses the transport for a URL, and creates the client.

file:///var/lib/shop               an embedded log in a directory, created at the first write
memory://                          an embedded log in memory, private to this client
memory://name                      a log in memory, shared by the process's clients of this name while a client is open
headstream://user:password@host    a server over TCP, port 8090; encrypted with ?tls=true
quic://user:password@host          a server over QUIC, port 8080, always encrypted
http://user:password@host:3000     a server over HTTP, https:// encrypted
kafka://host:9092,other:9092       a Kafka cluster (extra `kafka`); settings of Kafka's clients as ?kafka.*
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import SplitResult, unquote

from headstream.core.codec.mode import warn_if_interpreted
from headstream.core.model.urls import split_url
from headstream.errors import InvalidOptionError, InvalidUrlError, MissingExtraError

if TYPE_CHECKING:
    from headstream.client.async_client import AsyncClient
    from headstream.client.client import Client
    from headstream.interceptors.chain import Chain

URL_VARIABLE: Final = "HEADSTREAM_URL"
INTERCEPTORS_VARIABLE: Final = "HEADSTREAM_INTERCEPTORS"
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


def connect(url: str | None = None, *, interceptors: Any = (), **options: Any) -> Client:
    """Connect to the log at a URL, and return a client of the log.

    Args:
        url: `file:///directory`, `memory://`, `memory://name`, `headstream://user:password@host:8090` (TCP),
            `quic://user:password@host:8080` or `http(s)://user:password@host`; by default the variable HEADSTREAM_URL.
            Credentials can also be in HEADSTREAM_USERNAME and HEADSTREAM_PASSWORD; `:token@` is a personal access token.
        interceptors: A list of objects that see and can change this client's messages (headstream.interceptors), in the order in
            which they process sent messages. The interceptors in the variable HEADSTREAM_INTERCEPTORS follow.
        **options: For an embedded log: `segment_bytes`, the size at which a partition begins a new file (4 KiB to 2 GiB; default
            256 MiB). For an embedded log in a directory also `group_access`: the access of the directory's group to the files of
            a new log, `none` (the default), `read` or `write`. For a server, as arguments or in the URL's query: `tls` and
            `tls_verify` (true or false), `tls_ca_file`, `tls_domain`, `connect_timeout_ms`, `timeout_ms` (for a response),
            `retry_timeout_ms` (for reopening a broken connection).

    Raises:
        InvalidUrlError: the URL is invalid or unsupported.
        InvalidOptionError: an option is unknown or out of range.
        NotALogError: the directory contains files that do not belong to a log.
        LogVersionError: a newer version of Headstream wrote the log.
        StorageError: the directory cannot be read.
        ServerUnreachableError: the server cannot be reached.
        AuthenticationError: the user is unknown, or the password is wrong.
    """
    chain = _find_interceptors(interceptors)
    if chain is not None and chain.is_async:
        raise InvalidOptionError(
            f"the interceptor {chain.async_names[0]} is asynchronous", advice="Use connect_async(), or define methods with `def`"
        )
    client = _make(url, options, chain)
    client.open()
    return client


def connect_plain(url: str | None = None, **options: Any) -> Client:
    """Return a client without interceptors, for example for a mirror, which copies messages unchanged; see connect().

    Args:
        url: As for connect().
        **options: As for connect().
    """
    client = _make(url, options, None)
    client.open()
    return client


def connect_async(url: str | None = None, *, interceptors: Any = (), **options: Any) -> AsyncClient:
    """Return an asynchronous client for the log at a URL, for use as `async with connect_async(url) as log`.

    The client connects to the server at its first call, or at the beginning of the `async with` block.

    Args:
        url: As for connect().
        interceptors: As for connect(). Functions of an interceptor can also be coroutine functions; these run in the event loop.
        **options: As for connect().
    """
    from headstream.client.async_client import AsyncClient  # importing asyncio takes as long as all other imports

    return AsyncClient(_make(url, options, _find_interceptors(interceptors)))


def _find_interceptors(given: Any) -> Chain | None:
    """Return the chain of the given interceptors and the interceptors of the environment; None if there are none."""
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise InvalidOptionError(f"interceptors must be a list of objects, not {given!r}")
    found = list(given)
    if text := os.environ.get(INTERCEPTORS_VARIABLE):
        from headstream.interceptors.by_name import make_interceptors

        found += make_interceptors(text)
    if not found:
        return None
    from headstream.interceptors.chain import Chain

    return Chain(found)


def _make(url: str | None, options: dict[str, Any], chain: Chain | None) -> Client:
    if url is not None and not isinstance(url, str):
        raise InvalidUrlError(f"{url!r} is not a URL", advice=f"Write {_KINDS}")
    text, parts = _parse(url)
    warn_if_interpreted()
    if parts.scheme in _SERVERS:
        _check_options(options, _REMOTE_OPTIONS)
        return _make_remote(parts, options, chain)
    if parts.scheme == "kafka":
        return _make_kafka(parts, options, chain)
    _check_options(options, _EMBEDDED_OPTIONS)
    if parts.query or parts.fragment:
        raise InvalidUrlError(
            f"{text!r} must not have a query or a fragment",
            advice="Pass options to connect(); write ? as %3F and # as %23",
        )
    return _make_embedded(text, parts, options, chain)


def _parse(url: str | None) -> tuple[str, SplitResult]:
    text = os.environ.get(URL_VARIABLE, "") if url is None else url
    if not text:
        raise InvalidUrlError("the URL is missing", advice=f"Pass a URL ({_KINDS}), or set {URL_VARIABLE}")
    try:
        parts = split_url(text)
    except ValueError as error:
        raise InvalidUrlError(f"the URL is invalid: {error}", advice=f"Use {_KINDS}") from None
    if "@" in text and "://" in text and parts.scheme not in ("file", "memory"):
        # Error texts must not contain the password, which can have slashes and other special characters.
        text = f"{parts.scheme}://...{text[text.rindex('@') :]}"
    elif "@" in parts.netloc:
        text = parts._replace(netloc="..." + parts.netloc[parts.netloc.rindex("@") :]).geturl()
    return text, parts


def _check_options(options: dict[str, Any], known: tuple[str, ...]) -> None:
    for name in options:
        if name not in known:
            import difflib

            close = difflib.get_close_matches(name, known, n=1)
            advice = f"Did you mean {close[0]!r}?" if close else f"Use one of {', '.join(known)}"
            raise InvalidOptionError(f"connect() has no option {name!r}", advice=advice)


def _make_remote(parts: SplitResult, options: dict[str, Any], chain: Chain | None) -> Client:
    # Import only the modules of one transport: a server or an embedded log.
    from headstream.client.client import Client
    from headstream.client.transports.remote.address import parse_address
    from headstream.client.transports.remote.caller import Caller
    from headstream.client.transports.remote.server import Server
    from headstream.client.transports.remote.transport import RemoteTransport, connector_of

    address = parse_address(parts, options)
    caller = Caller(address, connector_of(address))
    return Client(RemoteTransport(caller), Server(caller), chain)


def _make_kafka(parts: SplitResult, options: dict[str, Any], chain: Chain | None) -> Client:
    from headstream.client.client import Client
    from headstream.client.transports.kafka.address import parse_kafka_address

    address = parse_kafka_address(parts, options)
    try:
        from headstream.client.transports.kafka.transport import KafkaTransport
    except ImportError as error:
        if error.name != "confluent_kafka":
            raise
        raise MissingExtraError("kafka:// requires confluent-kafka", advice="pip install 'headstream[kafka]'") from None
    return Client(KafkaTransport(address), None, chain)


def _make_embedded(text: str, parts: SplitResult, options: dict[str, Any], chain: Chain | None) -> Client:
    from headstream.broker.broker import Broker
    from headstream.client.client import Client
    from headstream.log.opening import open_directory, open_memory

    if parts.scheme == "file":
        return Client(Broker(open_directory(_directory(text, parts), **options)), chain=chain)
    if parts.scheme == "memory":
        if parts.path.strip("/"):
            raise InvalidUrlError(f"{text!r} must not have a path: a log in memory has only a name", advice="Use memory://name")
        _check_options(options, _EMBEDDED_OPTIONS[:1])
        return Client(Broker(open_memory(unquote(parts.netloc) or None, **options)), chain=chain)
    raise _refusal(text, parts)


def _directory(text: str, parts: SplitResult) -> str:
    path = unquote(parts.path)
    if parts.netloc not in ("", "localhost") or not path.startswith("/"):
        absolute = Path(unquote(parts.netloc) + path).expanduser().absolute()
        raise InvalidUrlError(f"{text!r} is not an absolute path", advice=f"Use three slashes: {absolute.as_uri()}")
    if "\0" in path:
        raise InvalidUrlError(f"the path in {text!r} must not contain NUL")
    return path


def _refusal(text: str, parts: SplitResult) -> InvalidUrlError:
    if parts.scheme in _ELSEWHERE:
        return InvalidUrlError(f"this build does not support {parts.scheme}://", where=text, advice=f"Use {_KINDS}")
    if not parts.scheme or "://" not in text:
        return InvalidUrlError(f"{text!r} is not a URL", advice=f"For a directory, write {Path(text).absolute().as_uri()}")
    return InvalidUrlError(f"{parts.scheme}:// is not a supported scheme", where=text, advice=f"Use {_KINDS}")
