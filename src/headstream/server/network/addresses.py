"""Address: where a server listens, written `host:port`, `[host]:port` for IPv6."""

from __future__ import annotations

import ipaddress
from typing import NamedTuple

from headstream.errors import InvalidOptionError


class Address(NamedTuple):
    """Where a server listens.

    Args:
        host: A name or an address of this machine; `0.0.0.0` and `::` listen on all of its addresses.
        port: 0 to 65535; 0 picks any free port.
    """

    host: str
    port: int

    @classmethod
    def parse(cls, text: str, where: str) -> Address:
        """Return the address in a text such as `127.0.0.1:8090` or `[::1]:8090`; InvalidOptionError with the option `where`."""
        host, colon, port = text.rpartition(":")
        bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
        if not colon or not bare or (":" in bare and bare == host) or not port.isdecimal() or int(port) > 65_535:
            raise InvalidOptionError(
                f"{text!r} is not an address",
                where=where,
                advice="Use HOST:PORT, for example 127.0.0.1:8090, [::1]:8090 or localhost:0",
            )
        return cls(bare, int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the address."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False
