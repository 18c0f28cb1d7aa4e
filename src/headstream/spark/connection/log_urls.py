"""The options `url` and `path`: a log in a directory that every executor can read, or a log behind a server.

file:///var/lib/shop                         a directory
headstream://user:password@host:8090         a server, over TCP; ?tls=true as for connect()

Credentials can also be in the driver's environment variables HEADSTREAM_USERNAME and HEADSTREAM_PASSWORD, or HEADSTREAM_TOKEN;
the driver passes the credentials to the tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias
from urllib.parse import SplitResult, unquote

from headstream.client.transports.remote.address import ServerUrl, parse_address
from headstream.core.model.urls import split_url
from headstream.errors import InvalidOptionError, InvalidUrlError

LogLocation: TypeAlias = str | ServerUrl
"""The location of a log: a directory or a server."""


def parse_log(given: Mapping[str, str]) -> LogLocation:
    """Return the log that the option `url` or `path` names.

    Args:
        given: Options by lower-case name.

    Raises:
        InvalidOptionError, InvalidUrlError: the options do not name a usable location. The message contains no password.
    """
    if "url" in given and "path" in given:
        raise InvalidOptionError("url and load(path) both name a log", advice="Set one of them")
    url = given.get("url") or given.get("path")
    if not url:
        raise InvalidOptionError(
            "the option url is missing",
            advice='Set the log with .option("url", "file:///var/lib/shop") or "headstream://user:password@host:8090"',
        )
    try:
        parts = split_url(url)
    except ValueError as error:
        raise InvalidUrlError(
            f"the option url is not a URL: {error}", advice="Write headstream://user:password@host:8090"
        ) from None
    bare = _without_credentials(url, parts)
    if parts.scheme == "headstream":
        return parse_address(parts, {})
    if parts.scheme == "file":
        return _directory(parts, bare)
    if parts.scheme == "kafka":
        raise InvalidUrlError(
            f"{bare!r}: Kafka can be used only through DataFrames of a registered session, not in SQL",
            advice="In SQL, use a view of a DataFrame: frame.createOrReplaceTempView('orders'). "
            "For DataFrames, use a session from headstream.spark.session(), or call headstream.spark.register(spark)",
        )
    if parts.scheme in ("http", "https"):
        raise InvalidUrlError(
            f"{bare!r}: Spark connects to a server over TCP only", advice="Write headstream://user:password@host:8090"
        )
    raise InvalidUrlError(
        f"{bare!r} is not a log that Spark can read",
        advice="Set the directory of an embedded log, such as file:///var/lib/shop, or a server, such as "
        "headstream://user:password@host:8090",
    )


def _without_credentials(url: str, parts: SplitResult) -> str:
    """Return a URL for errors. A password can contain slashes and other special characters, and ends at the last @."""
    if "@" not in url or (parts.scheme == "file" and "@" not in parts.netloc):
        return url
    return f"{parts.scheme}://{url.rpartition('@')[2]}"


def _directory(parts: SplitResult, bare: str) -> str:
    path = unquote(parts.path)
    if parts.netloc not in ("", "localhost") or not path.startswith("/") or parts.query or parts.fragment:
        raise InvalidUrlError(f"{bare!r} is not a directory on this machine", advice="Use file:// and an absolute path")
    return path.rstrip("/") or "/"
