"""Certificates of a QUIC server, and tokens that validate client addresses."""

from __future__ import annotations

import datetime
import hashlib
import hmac
import ipaddress
import logging
import os
import struct
from pathlib import Path
from typing import Final

from aioquic.quic.configuration import QuicConfiguration
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import NameOID

from headstream.errors import InvalidOptionError, StorageError
from headstream.server.network.tls import TlsFiles, check_private

_LOGGER: Final = logging.getLogger("headstream.server.quic")

_DAYS: Final = 365
_LEFT_DAYS: Final = 30
"""A certificate that expires in fewer days than this is recreated when the server starts."""

_TOKEN_S: Final = 10
"""Validity of an address token, seconds; clients return the token immediately."""
_MAC_BYTES: Final = 16
_TOKEN_HEAD: Final = struct.Struct("<QBB")


def load_certificate(configuration: QuicConfiguration, files: TlsFiles) -> None:
    """Load a certificate and key; StorageError; InvalidOptionError if a file is invalid or other users can read the key."""
    try:
        pem = files.certificate.read_bytes()
        key_pem = pem if files.key is None else files.key.read_bytes()
    except OSError as error:
        raise StorageError(f"a certificate or key cannot be read: {error.strerror}", where=error.filename) from error
    check_private(files.certificate if files.key is None else files.key)
    try:
        chain = x509.load_pem_x509_certificates(pem)
        configuration.private_key = load_pem_private_key(key_pem, files.password.encode() or None)
    except (ValueError, TypeError) as error:
        raise InvalidOptionError(
            f"cannot load the certificate and private key: {error}", where=str(files.certificate), advice="Specify PEM files"
        ) from None
    configuration.certificate, configuration.certificate_chain = chain[0], chain[1:]


def make_self_signed(certificate: Path, key: Path) -> TlsFiles:
    """Create a self-signed certificate for localhost, unless the stored certificate is valid for 30 more days.

    The certificate uses ECDSA P-256, the only algorithm that Iggy clients accept, and is stored in a file, so that clients can be
    configured to trust it. A new certificate is logged, because clients that trust the previous certificate refuse it.
    """
    files, now = TlsFiles(certificate=certificate, key=key), datetime.datetime.now(datetime.UTC)
    try:
        load_certificate(QuicConfiguration(is_client=False), files)
        known = x509.load_pem_x509_certificate(certificate.read_bytes())
        if known.not_valid_after_utc - now > datetime.timedelta(days=_LEFT_DAYS):
            return files
        why = "the previous certificate expires soon"
    except (StorageError, InvalidOptionError) as error:
        why = str(error) if key.exists() else "there was no certificate"
    made = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    builder = x509.CertificateBuilder(name, name, made.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - datetime.timedelta(days=1)).not_valid_after(now + datetime.timedelta(days=_DAYS))
    loopback = [x509.IPAddress(ipaddress.ip_address(address)) for address in ("127.0.0.1", "::1")]
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost"), *loopback]), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    key.unlink(missing_ok=True)
    with os.fdopen(os.open(key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    certificate.write_bytes(builder.sign(made, hashes.SHA256()).public_bytes(Encoding.PEM))
    _LOGGER.warning("created a self-signed QUIC certificate that clients must trust: %s (%s)", certificate, why)
    return files


class AddressTokens:
    """Stateless tokens that prove that a client receives packets sent to its address.

    A token contains the ids of the new connection, and a keyed hash of the ids, the address and the time.
    """

    def __init__(self) -> None:
        self._key = os.urandom(32)

    def make(self, address: tuple[str, int], original_id: bytes, retry_id: bytes, now_s: float) -> bytes:
        """Return a token with the connection id that the client first chose and the id that the server assigned."""
        body = _TOKEN_HEAD.pack(int(now_s), len(original_id), len(retry_id)) + original_id + retry_id
        return body + self._sign(body, address)

    def read(self, token: bytes, address: tuple[str, int], now_s: float) -> tuple[bytes, bytes] | None:
        """Return the two ids of a client's token; None if the token is invalid or expired."""
        body, mac = token[:-_MAC_BYTES], token[-_MAC_BYTES:]
        if len(body) < _TOKEN_HEAD.size or not hmac.compare_digest(mac, self._sign(body, address)):
            return None
        made_s, original_size, _ = _TOKEN_HEAD.unpack_from(body)
        if now_s - made_s > _TOKEN_S:
            return None
        ids = body[_TOKEN_HEAD.size :]
        return ids[:original_size], ids[original_size:]

    def _sign(self, body: bytes, address: tuple[str, int]) -> bytes:
        text = body + repr(address[:2]).encode()
        return hashlib.blake2b(text, key=self._key, digest_size=_MAC_BYTES).digest()
