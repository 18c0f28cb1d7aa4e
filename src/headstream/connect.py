"""connect(): from a URL to a client, the one place that chooses what is behind it.

file:///var/lib/shop     an embedded log in a directory, which is made at the first write
memory://                an embedded log in the memory of this process, which nobody else sees
memory://name            one that all who give the name share, for as long as one of them has it open
"""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import SplitResult, unquote, urlsplit

from headstream.broker.broker import Broker
from headstream.client.client import Client
from headstream.errors import InvalidOptionError, InvalidUrlError
from headstream.log.log import Log
from headstream.log.shared import open_directory, open_memory

if TYPE_CHECKING:
    from headstream.client.async_client import AsyncClient

__all__ = ["URL_VARIABLE", "connect", "connect_async"]

URL_VARIABLE: Final = "HEADSTREAM_URL"
_KINDS: Final = "file:///directory, memory:// or memory://name"
_REMOTE: Final = ("headstream", "headstreams", "http", "https", "kafka", "iggy", "iggy+tcp", "quic", "tcp")
_OPTIONS: Final = ("segment_bytes",)


def connect(url: str | None = None, **options: Any) -> Client:
    """Return a client of the log at a URL.

    Args:
        url: `file:///directory`, `memory://` or `memory://name`; the environment's HEADSTREAM_URL where none is given.
        **options: For an embedded log `segment_bytes`, the size at which a partition's file is followed by a new one
            (4 KiB to 2 GiB; 256 MiB unless said otherwise).

    Raises:
        InvalidUrlError: the URL cannot be used.
        InvalidOptionError: an option is unknown or out of range.
        NotALogError: there is something else in the directory.
        LogVersionError: a newer Headstream wrote it.
        StorageError: the directory cannot be read.
    """
    return Client(Broker(_open(url, options)))


def connect_async(url: str | None = None, **options: Any) -> AsyncClient:
    """Return an asynchronous client of the log at a URL: `async with connect_async(url) as log`.

    Args:
        url: As for connect().
        **options: As for connect().
    """
    from headstream.client.async_client import AsyncClient  # asyncio costs as much to import as all of the rest

    return AsyncClient(connect(url, **options))


def _open(url: str | None, options: dict[str, Any]) -> Log:
    for name in options:
        if name not in _OPTIONS:
            close = difflib.get_close_matches(name, _OPTIONS, n=1)
            advice = f"Did you mean {close[0]!r}?" if close else f"There is {', '.join(_OPTIONS)}"
            raise InvalidOptionError(f"connect() has no option {name!r}", advice=advice)
    text = os.environ.get(URL_VARIABLE, "") if url is None else url
    if not text:
        raise InvalidUrlError("there is no URL to connect to", advice=f"Give one ({_KINDS}), or set {URL_VARIABLE}")
    try:
        parts = urlsplit(text)
    except ValueError as error:
        raise InvalidUrlError(f"this is not a URL: {error}", advice=f"Use {_KINDS}") from None
    if "@" in parts.netloc:  # what is said about the URL must not repeat its password
        parts = parts._replace(netloc="..." + parts.netloc[parts.netloc.rindex("@") :])
        text = parts.geturl()
    if parts.query or parts.fragment:
        raise InvalidUrlError(
            f"{text!r} has a part after the path", advice="Options are arguments of connect(); write ? as %3F and # as %23"
        )
    if parts.scheme == "file":
        return open_directory(_directory(text, parts), **options)
    if parts.scheme == "memory":
        if parts.path.strip("/"):
            raise InvalidUrlError(f"{text!r} has a path, a log in memory has a name", advice="Use memory://name")
        return open_memory(unquote(parts.netloc) or None, **options)
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
    if parts.scheme in _REMOTE:
        return InvalidUrlError(f"this build has no transport for {parts.scheme}:// yet", where=text, advice=f"Use {_KINDS}")
    if not parts.scheme or "://" not in text:
        return InvalidUrlError(f"{text!r} is not a URL", advice=f"For a directory write {Path(text).absolute().as_uri()}")
    return InvalidUrlError(f"{parts.scheme}:// is not a kind of log", where=text, advice=f"Use {_KINDS}")
