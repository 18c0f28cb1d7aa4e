"""Hosts: checks whether a request names this server and whether the origin of its page is allowed; no token is required.

If a foreign name resolves to this machine (DNS rebinding), a browser treats the page as the server's own. Only `Host` shows that
the name does not belong to the server.

    Host                                      accepted
    an IP address                             always: DNS rebinding requires a name
    localhost, a name below .localhost        always: the browser's own machine
    the name in `http.address`                always
    a name without a dot, the machine's name  if the listener is not on a loopback address: internet pages have no such name
    any other name                            if `headstream.allowed_hosts` contains it or `*`
    none                                      in HTTP/1.0, which no browser uses

    Origin                                    accepted
    none                                      unless `Sec-Fetch-Site` shows that a page of another origin embeds the request
    the host and port of `Host`               always
    a name in `headstream.allowed_hosts`      always: a proxy may have changed `Host`
    any other, `null`                         if `http.cors.allowed_origins` contains it or `*`

Ports of `Host` are not compared, because containers and tunnels change ports. `X-Forwarded-Host` can be set by pages and is
ignored.
"""

from __future__ import annotations

import functools
import ipaddress
import logging
import re
import socket
from collections.abc import Collection, Mapping
from typing import Final

from aiohttp import hdrs, web
from multidict import istr

from headstream.core.wire.statuses import Status
from headstream.server.http.replies import Reply, text_reply
from headstream.server.http.requests import peer_of
from headstream.server.network.addresses import Address
from headstream.server.reporting.logs import note

HEALTH_PATH: Final = "/health"
"""Path that is answered for any host name: load balancers choose the name, and the reply contains no data of the log."""

_HTTP_1_1: Final = (1, 1)
_AUTHORITY: Final = re.compile(r"(\[[0-9A-Fa-f:.]+(?:%[\w.~%-]+)?\]|[^\s:/?#@\[\]\\]+)(?::(\d{0,5}))?")
_DEFAULT_PORTS: Final = frozenset({"", "80", "443"})
_OTHER_SITES: Final = frozenset({"cross-site", "same-site"})
_FETCH_SITE: Final = istr("Sec-Fetch-Site")
_SHOWN_CHARS: Final = 100


class Hosts:
    """The host names of one listener and the allowed origins of pages; used in one event loop.

    Args:
        allowed_hosts: Additional names of the server, in lower case; `*`: any name.
        allowed_origins: Origins that CORS allows; `*`: any origin.
    """

    def __init__(self, listener: str, allowed_hosts: Collection[str] = (), allowed_origins: Collection[str] = ()) -> None:
        self._allowed_hosts = frozenset(allowed_hosts)
        self._allowed_origins = frozenset(allowed_origins) - {""}
        self._is_loopback = Address(listener, 0).is_loopback
        names = {"localhost", listener.lower(), *self._allowed_hosts}
        self._names = names if self._is_loopback else names | {socket.gethostname().lower()}
        self._has_name = functools.lru_cache(256)(self._find_name)

    def refuse(self, request: web.BaseRequest) -> Reply | None:
        """Return the refusal of a request for a different server or from a page of another origin, else None."""
        headers = request.headers
        given = headers.getall(hdrs.HOST, ())
        if len(given) == 1 and self._has_name(given[0]) and hdrs.ORIGIN not in headers and _FETCH_SITE not in headers:
            return None  # programs that are not browsers send neither header: decide quickly
        if request.rel_url.raw_path == HEALTH_PATH:
            return None
        if len(given) > 1 or (not given and request.version >= _HTTP_1_1):
            return text_reply(400, "exactly one Host header is required", Status.INVALID_COMMAND)
        host = given[0] if given else ""
        if given and not self._has_name(host):
            what = (
                f"{_shown(host)} is not a host name of this server. Use the server's address, or add the name to "
                "headstream.allowed_hosts (--allowed-host)"
            )
        elif self._is_of_another_origin(host, headers.get("Origin"), headers):
            page = headers.get("Origin", "another origin")
            what = (
                f"pages from {_shown(page)} must not send requests to this server. Add the origin to http.cors.allowed_origins. "
                "If the origin is a proxy of this server, add its host to headstream.allowed_hosts"
            )
        else:
            return None
        note(logging.INFO, "request refused", address=peer_of(request), reason=what)
        return text_reply(403, what, Status.UNAUTHORIZED)

    def _find_name(self, host: str) -> bool:
        """Return whether the value of a `Host` header names this server."""
        name, _ = _split(host)
        if not name:
            return False
        if "*" in self._allowed_hosts or name in self._names or name.endswith(".localhost"):
            return True
        return _is_address(name) or (not self._is_loopback and "." not in name)

    def _is_of_another_origin(self, host: str, origin: str | None, headers: Mapping[str, str]) -> bool:
        if "*" in self._allowed_origins:
            return False
        if origin is None:
            return headers.get(_FETCH_SITE) in _OTHER_SITES and headers.get("Sec-Fetch-Mode") != "navigate"
        if origin in self._allowed_origins:
            return False
        _, colons, authority = origin.partition("://")
        place = _split(authority)
        return not colons or not place[0] or (place != _split(host) and place[0] not in self._allowed_hosts)


def _split(authority: str) -> tuple[str, str]:
    """Split `host:port` into the lower-case name or address and the port ("" for a default port); ("", "") if invalid."""
    found = _AUTHORITY.fullmatch(authority)
    if found is None:
        return "", ""
    port = found[2] or ""
    return found[1].lower().removesuffix("."), "" if port in _DEFAULT_PORTS else port


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name[1:-1] if name.startswith("[") else name)
    except ValueError:
        return False
    return True


def _shown(text: str) -> str:
    return repr(text[:_SHOWN_CHARS])
