"""What a server over QUIC shows to prove who it is, and what clients show to prove where they are."""

from __future__ import annotations

import datetime
import hashlib
import hmac
import ipaddress
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
from headstream.server.tls import TlsFiles

__all__ = ["AddressTokens", "load_certificate", "make_self_signed"]

_DAYS: Final = 365
_LEFT_DAYS: Final = 30
"""A certificate that is good for less is made anew at the start."""

_TOKEN_S: Final = 10
"""How long a proof of an address is good: a client shows it at once."""
_MAC_BYTES: Final = 16
_TOKEN_HEAD: Final = struct.Struct("<QBB")


def load_certificate(configuration: QuicConfiguration, files: TlsFiles) -> None:
    """Put a certificate and its key into a configuration.

    Raises:
        StorageError: a file cannot be read.
        InvalidOptionError: there is no certificate with its key in them.
    """
    try:
        pem = files.certificate.read_bytes()
        key_pem = pem if files.key is None else files.key.read_bytes()
    except OSError as error:
        raise StorageError(f"a certificate or key cannot be read: {error.strerror}", where=error.filename) from error
    try:
        chain = x509.load_pem_x509_certificates(pem)
        configuration.private_key = load_pem_private_key(key_pem, files.password.encode() or None)
    except (ValueError, TypeError) as error:
        raise InvalidOptionError(
            f"no certificate with its key: {error}", where=str(files.certificate), advice="Give PEM files for QUIC"
        ) from None
    configuration.certificate, configuration.certificate_chain = chain[0], chain[1:]


def make_self_signed(certificate: Path, key: Path) -> TlsFiles:
    """Make a certificate for localhost that vouches for itself, unless there is one that is good for some time.

    It is of the one kind (ECDSA P-256) that existing clients take, and lies in a file, so that others can be told to trust it.

    Args:
        certificate: Where it is to be.
        key: Where its key is to be; only this user can read it.
    """
    files, now = TlsFiles(certificate=certificate, key=key), datetime.datetime.now(datetime.UTC)
    try:
        load_certificate(QuicConfiguration(is_client=False), files)
        known = x509.load_pem_x509_certificate(certificate.read_bytes())
        if known.not_valid_after_utc - now > datetime.timedelta(days=_LEFT_DAYS):
            return files
    except (StorageError, InvalidOptionError):  # there is none yet, or only a part of it
        pass
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
    return files


class AddressTokens:
    """Proofs that a client gets what is sent to its address; the server keeps nothing for them.

    Each has the ids of the connection that is about to begin, and a keyed hash over them, the address and the time.
    """

    def __init__(self) -> None:
        self._key = os.urandom(32)

    def make(self, address: tuple[str, int], original_id: bytes, retry_id: bytes, now_s: float) -> bytes:
        """Return a token.

        Args:
            address: The client's.
            original_id: The connection's id that the client chose first.
            retry_id: The one that the server tells it to use.
            now_s: The time.
        """
        told = _TOKEN_HEAD.pack(int(now_s), len(original_id), len(retry_id)) + original_id + retry_id
        return told + self._sign(told, address)

    def read(self, token: bytes, address: tuple[str, int], now_s: float) -> tuple[bytes, bytes] | None:
        """Return the two ids of a token; None where it is not good.

        Args:
            token: What the client shows.
            address: The client's.
            now_s: The time.
        """
        told, mac = token[:-_MAC_BYTES], token[-_MAC_BYTES:]
        if len(told) < _TOKEN_HEAD.size or not hmac.compare_digest(mac, self._sign(told, address)):
            return None
        made_s, original_size, _ = _TOKEN_HEAD.unpack_from(told)
        if now_s - made_s > _TOKEN_S:
            return None
        ids = told[_TOKEN_HEAD.size :]
        return ids[:original_size], ids[original_size:]

    def _sign(self, told: bytes, address: tuple[str, int]) -> bytes:
        text = told + repr(address[:2]).encode()
        return hashlib.blake2b(text, key=self._key, digest_size=_MAC_BYTES).digest()
