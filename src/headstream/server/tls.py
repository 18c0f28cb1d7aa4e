"""TLS: what a server shows to prove who it is, from PEM files or from one PKCS#12 file."""

from __future__ import annotations

import os
import ssl
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from headstream.errors import InvalidOptionError, StorageError

__all__ = ["FAREWELL_S", "TlsFiles", "make_tls"]

FAREWELL_S: Final = 1.0
"""How long a client has to answer that the connection ends: one that is silent does not hold up the server's own end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """A certificate and its key.

    Args:
        certificate: A PEM file with the certificate and those that vouch for it, or a PKCS#12 file with all of it.
        key: A PEM file with the key; None if it is in the same file.
        password: What the key is encrypted with, empty for nothing.
    """

    certificate: Path
    key: Path | None = None
    password: str = field(default="", repr=False)


def make_tls(files: TlsFiles) -> ssl.SSLContext:
    """Return how a server encrypts: TLS 1.2 or later.

    Raises:
        StorageError: a file cannot be read.
        InvalidOptionError: there is no certificate with its key in them, the password is wrong, or others can read the key.
    """
    try:
        data = files.certificate.read_bytes()
        if files.key is not None:
            files.key.read_bytes()
    except OSError as error:
        raise StorageError(f"a certificate or key cannot be read: {error.strerror}", where=error.filename) from error
    if files.key is not None or b"PRIVATE KEY" in data or b"-----BEGIN" not in data:
        _check_private(files.certificate if files.key is None else files.key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        if b"-----BEGIN" in data:
            context.load_cert_chain(files.certificate, files.key, lambda: files.password)
        else:
            _load_pkcs12(context, data, files)
    except (ssl.SSLError, ValueError) as error:
        raise InvalidOptionError(
            f"no certificate with its key: {error}",
            where=str(files.certificate),
            advice="Give a PEM file and its key, or a PKCS#12 file and its password",
        ) from None
    return context


def _check_private(key: Path) -> None:
    """Refuse a key that other users can read or change; of another user's key, as root's, a group may have been given it."""
    found = key.stat()
    if found.st_mode & 0o007 or (found.st_uid == os.getuid() and found.st_mode & 0o077):
        raise InvalidOptionError(
            f"others can read or change the key: its mode is {found.st_mode & 0o777:04o}",
            where=str(key),
            advice=f"Take their rights: chmod 600 {key}. If somebody may have read it, make another",
        )


def _load_pkcs12(context: ssl.SSLContext, data: bytes, files: TlsFiles) -> None:
    """Load a PKCS#12 file by way of a PEM file that only this user can read, and that is gone when this returns."""
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_key_and_certificates

    key, certificate, others = load_key_and_certificates(data, files.password.encode() or None)
    if key is None or certificate is None:
        raise ValueError("the file lacks one of them")
    password = os.urandom(16).hex()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password.encode()))
    pem += b"".join(each.public_bytes(Encoding.PEM) for each in (certificate, *others))
    with tempfile.NamedTemporaryFile(suffix=".pem") as file:  # mkstemp: mode 0600
        file.write(pem)
        file.flush()
        context.load_cert_chain(file.name, password=password)
