"""Unit tests of headstream.server.network.addresses."""

from __future__ import annotations

import pytest

from headstream.errors import InvalidOptionError
from headstream.server.network.addresses import Address


@pytest.mark.parametrize(
    ("text", "address", "is_loopback"),
    [
        ("127.0.0.1:8090", Address("127.0.0.1", 8090), True),
        ("127.8.0.1:0", Address("127.8.0.1", 0), True),
        ("localhost:1", Address("localhost", 1), True),
        ("[::1]:8090", Address("::1", 8090), True),
        ("[::]:8090", Address("::", 8090), False),
        ("0.0.0.0:8090", Address("0.0.0.0", 8090), False),
        ("shop.example:8090", Address("shop.example", 8090), False),
    ],
)
def test_address_reads_hosts_and_ports(text: str, address: Address, is_loopback: bool) -> None:
    found = Address.parse(text, "tcp.address")
    assert found == address
    assert str(found) == text
    assert found.is_loopback is is_loopback


@pytest.mark.parametrize("text", ["", ":1", "::1:8090", "host", "host:", "host:-1", "host:70000", "[]:1"])
def test_address_refuses_text_that_is_not_an_address(text: str) -> None:
    with pytest.raises(InvalidOptionError, match="is not an address"):
        Address.parse(text, "tcp.address")
