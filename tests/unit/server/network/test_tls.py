"""TLS over TCP: a server shows a certificate from PEM or PKCS#12 files, and says what is wrong with them."""

from __future__ import annotations

import logging
import ssl
from contextlib import ExitStack
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates

from headstream.core.codec.binary import encode_sent
from headstream.core.model.message import Message
from headstream.core.wire.codes import Code
from headstream.core.wire.frames import encode_request
from headstream.errors import InvalidOptionError, StorageError
from headstream.server.network.tls import TlsFiles, make_tls
from tests.support.server.certificates import make_certificate
from tests.support.server.served import Peer, config_of, serving


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a certificate for localhost that vouches for itself, in every form."""
    directory = tmp_path_factory.mktemp("tls")
    key, certificate = make_certificate("localhost")
    pem = certificate.public_bytes(Encoding.PEM)
    (directory / "certificate.pem").write_bytes(pem)
    (directory / "key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    (directory / "both.pem").write_bytes(
        pem + key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    )
    (directory / "both.pfx").write_bytes(
        serialize_key_and_certificates(b"server", key, certificate, None, BestAvailableEncryption(b"secret"))
    )
    (directory / "nothing.pfx").write_bytes(b"this is no certificate")
    for name in ("key.pem", "both.pem", "both.pfx", "nothing.pfx"):
        (directory / name).chmod(0o600)
    return directory


def forms(directory: Path) -> dict[str, TlsFiles]:
    return {
        "two files": TlsFiles(certificate=directory / "certificate.pem", key=directory / "key.pem"),
        "one file": TlsFiles(certificate=directory / "both.pem", password="secret"),
        "PKCS#12": TlsFiles(certificate=directory / "both.pfx", password="secret"),
    }


@pytest.mark.parametrize("form", ["two files", "one file", "PKCS#12"])
def test_tls_serves_whoever_trusts_the_certificate(files: Path, form: str) -> None:
    trusting = ssl.create_default_context(cafile=str(files / "certificate.pem"))
    with serving(config_of(tcp_tls=forms(files)[form])) as running:
        plain = running.peer(is_logged_in=False)
        with Peer(trusting.wrap_socket(plain.socket, server_hostname="localhost")) as peer:
            peer.log_in()
            assert peer.request(Code.PING) == (0, b"")
            big = encode_sent([Message(payload=b"x" * 3_000_000)])  # many records of TLS
            peer.send(encode_request(9999, big) + encode_request(Code.PING))
            assert [peer.receive()[0] for _ in range(2)] == [3, 0]


def test_tls_with_a_silent_client_does_not_hold_up_the_end(files: Path, caplog: pytest.LogCaptureFixture) -> None:
    trusting = ssl.create_default_context(cafile=str(files / "certificate.pem"))
    with ExitStack() as stack:
        with serving(config_of(tcp_tls=forms(files)["PKCS#12"])) as running:
            plain = running.peer(is_logged_in=False)
            peer = stack.enter_context(Peer(trusting.wrap_socket(plain.socket, server_hostname="localhost")))
            assert peer.request(Code.PING) == (0, b"")
        assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_tls_closes_a_client_that_speaks_plainly(files: Path) -> None:
    with serving(config_of(tcp_tls=forms(files)["PKCS#12"])) as running, running.peer(is_logged_in=False) as peer:
        peer.send(encode_request(Code.PING))
        alert = peer.socket.recv(100)
        assert not alert or alert[0] == 21  # what TLS says before it closes, or nothing
        assert not alert or peer.is_closed()


@pytest.mark.parametrize(
    ("name", "key", "password", "kind"),
    [
        ("missing.pem", None, "", StorageError),
        ("certificate.pem", "missing.pem", "", StorageError),
        ("certificate.pem", None, "", InvalidOptionError),
        ("both.pem", None, "wrong", InvalidOptionError),
        ("both.pfx", None, "wrong", InvalidOptionError),
        ("nothing.pfx", None, "secret", InvalidOptionError),
    ],
)
def test_tls_says_what_is_wrong_with_its_files(
    files: Path, name: str, key: str | None, password: str, kind: type[Exception]
) -> None:
    given = TlsFiles(certificate=files / name, key=None if key is None else files / key, password=password)
    with pytest.raises(kind) as refused:
        make_tls(given)
    assert str(files) in str(refused.value)
    assert password not in str(refused.value) or not password
    assert password not in repr(given) or not password


@pytest.mark.parametrize("form", ["two files", "one file", "PKCS#12"])
@pytest.mark.parametrize("mode", [0o604, 0o640, 0o620])
def test_tls_refuses_a_key_that_others_can_read_or_change(files: Path, form: str, mode: int) -> None:
    given = forms(files)[form]
    key = given.certificate if given.key is None else given.key
    key.chmod(mode)
    try:
        with pytest.raises(InvalidOptionError, match=rf"which has mode {mode:04o} .*{key.name}.*chmod 600"):
            make_tls(given)
    finally:
        key.chmod(0o600)
    make_tls(given)
