"""Unit tests of headstream.server.iggy.quic.tls."""

from __future__ import annotations

from pathlib import Path

import pytest
from aioquic.quic.configuration import QuicConfiguration

import headstream as hs
from headstream.errors import AuthenticationError, InvalidOptionError, ServerUnreachableError
from headstream.server.app import QUIC_CERTIFICATE
from headstream.server.iggy.quic.tls import AddressTokens, load_certificate, make_self_signed
from headstream.server.network.addresses import Address
from tests.support.server.certificates import write_certificate
from tests.support.server.served import config_of, serving
from tests.unit.server.iggy.quic.test_server import address_of


def test_quic_client_trusts_the_certificate_that_the_server_has_made_and_no_other(tmp_path: Path) -> None:
    with serving(config_of(quic_address=Address("127.0.0.1", 0), data=str(tmp_path / "log"))) as running:
        port, certificate = address_of(running).port, tmp_path / "log" / "runtime" / QUIC_CERTIFICATE
        for host in ("localhost", "127.0.0.1"):
            with hs.connect(f"quic://iggy:iggy@{host}:{port}", tls_ca_file=str(certificate)) as log:
                assert log.topics() == []
        with pytest.raises(ServerUnreachableError, match="certificate"):
            hs.connect(f"quic://iggy:iggy@localhost:{port}", retry_timeout_ms=0)
        with pytest.raises(AuthenticationError, match="cannot log in"):
            hs.connect(f"quic://iggy:wrong@localhost:{port}", tls_verify=False)
        made = certificate.read_bytes()
    with serving(config_of(quic_address=Address("127.0.0.1", 0), data=str(tmp_path / "log"))):
        assert certificate.read_bytes() == made
        assert (certificate.parent / "quic_key.pem").stat().st_mode & 0o777 == 0o600


def test_quic_refuses_a_key_that_others_can_read_when_it_is_configured(tmp_path: Path) -> None:
    files = write_certificate(tmp_path, "localhost")
    (tmp_path / "key.pem").chmod(0o644)
    with pytest.raises(InvalidOptionError, match=r"which has mode 0644 .*key\.pem.*chmod 600"):
        load_certificate(QuicConfiguration(is_client=False), files)
    (tmp_path / "key.pem").chmod(0o600)
    load_certificate(QuicConfiguration(is_client=False), files)


def test_quic_replaces_its_own_key_and_logs_it_when_others_can_read_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    key = tmp_path / "quic_key.pem"
    make_self_signed(tmp_path / QUIC_CERTIFICATE, key)
    known = key.read_bytes()
    caplog.clear()
    make_self_signed(tmp_path / QUIC_CERTIFICATE, key)
    assert not caplog.messages
    key.chmod(0o640)
    make_self_signed(tmp_path / QUIC_CERTIFICATE, key)
    assert "created a self-signed QUIC certificate" in caplog.text
    assert "which has mode 0640" in caplog.text
    assert key.read_bytes() != known
    assert key.stat().st_mode & 0o777 == 0o600


def test_address_tokens_are_good_for_one_address_and_some_seconds() -> None:
    tokens, address = AddressTokens(), ("10.0.0.1", 4000)
    token = tokens.make(address, b"original", b"retry", 100.0)
    assert tokens.read(token, address, 105.0) == (b"original", b"retry")
    assert tokens.read(token, ("10.0.0.2", 4000), 105.0) is None
    assert tokens.read(token, address, 111.0) is None
    assert tokens.read(token[:-1] + b"\0", address, 105.0) is None or token[-1] == 0
    assert tokens.read(b"", address, 105.0) is None
    assert AddressTokens().read(token, address, 105.0) is None
