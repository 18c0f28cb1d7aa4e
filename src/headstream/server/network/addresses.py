"""Address: the address on which a server listens: `host:port`, or `[host]:port` for IPv6."""

from __future__ import annotations

import ipaddress
from typing import NamedTuple

from headstream.errors import InvalidOptionError


class Address(NamedTuple):
    """The address on which a server listens.

    Args:
        host: A host name or address of this machine; `0.0.0.0` and `::` mean all addresses.
        port: 0 to 65535; 0 means any free port.
    """

    host: str
    port: int

    @classmethod
    def parse(cls, text: str, where: str) -> Address:
        """Parse an address such as `127.0.0.1:8090` or `[::1]:8090`; InvalidOptionError, which names the option `where`."""
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
