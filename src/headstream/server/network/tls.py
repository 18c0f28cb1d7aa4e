"""TLS: loads the server's certificate and key from PEM files or a PKCS#12 file."""

from __future__ import annotations

import os
import ssl
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from headstream.errors import InvalidOptionError, StorageError

TLS_SHUTDOWN_TIMEOUT_S: Final = 1.0
"""Timeout of the TLS shutdown: a silent client must not delay the server's stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """A certificate and its key.

    Args:
        certificate: A PEM file with the certificate and chain, or a PKCS#12 file with certificate, chain and key.
        key: A PEM file with the key; None if the certificate file contains the key.
        password: Password of the key; empty if the key is not encrypted.
    """

    certificate: Path
    key: Path | None = None
    password: str = field(default="", repr=False)


def make_tls(files: TlsFiles) -> ssl.SSLContext:
    """Return the TLS context of a server with a certificate; TLS 1.2 or later.

    Raises:
        StorageError: a file cannot be read.
        InvalidOptionError: no certificate or key is found, the password is wrong, or other users can read the key.
    """
    try:
        data = files.certificate.read_bytes()
        if files.key is not None:
            files.key.read_bytes()
    except OSError as error:
        raise StorageError(f"a certificate or key cannot be read: {error.strerror}", where=error.filename) from error
    if files.key is not None or b"PRIVATE KEY" in data or b"-----BEGIN" not in data:
        check_private(files.certificate if files.key is None else files.key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        if b"-----BEGIN" in data:
            context.load_cert_chain(files.certificate, files.key, lambda: files.password)
        else:
            _load_pkcs12(context, data, files)
    except (ssl.SSLError, ValueError) as error:
        raise InvalidOptionError(
            f"cannot load the certificate and private key: {error}",
            where=str(files.certificate),
            advice="Set a PEM file and its key, or a PKCS#12 file and its password",
        ) from None
    return context


def check_private(key: Path) -> None:
    """Raise InvalidOptionError if other users can access the key; the key's group is allowed if another user owns the key."""
    found = key.stat()
    if found.st_mode & 0o007 or (found.st_uid == os.getuid() and found.st_mode & 0o077):
        raise InvalidOptionError(
            f"other users can read or change the key, which has mode {found.st_mode & 0o777:04o}",
            where=str(key),
            advice=f"Run chmod 600 {key}. If another user may have read the key, create a new key",
        )


def _load_pkcs12(context: ssl.SSLContext, data: bytes, files: TlsFiles) -> None:
    """Load a PKCS#12 file with a temporary PEM file, which only this user can read and which is then removed."""
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_key_and_certificates

    key, certificate, others = load_key_and_certificates(data, files.password.encode() or None)
    if key is None or certificate is None:
        raise ValueError("the file must contain the certificate and the key")
    password = os.urandom(16).hex()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password.encode()))
    pem += b"".join(each.public_bytes(Encoding.PEM) for each in (certificate, *others))
    with tempfile.NamedTemporaryFile(suffix=".pem") as file:  # mkstemp: mode 0600
        file.write(pem)
        file.flush()
        context.load_cert_chain(file.name, password=password)
