"""Certificates for tests: each vouches for itself."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from headstream.server.network.tls import TlsFiles


def make_certificate(host: str, *, is_authority: bool = True) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    """Return a key and its certificate, good for a day.

    Args:
        host: The name or IP address that it is of.
        is_authority: Whether it may vouch for others, which clients in Rust do not accept of a server's.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Headstream's tests")])
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - datetime.timedelta(days=1)).not_valid_after(now + datetime.timedelta(days=1))
    builder = builder.add_extension(x509.SubjectAlternativeName([_general_name(host)]), critical=False)
    builder = builder.add_extension(
        x509.BasicConstraints(ca=is_authority, path_length=0 if is_authority else None), critical=True
    )
    return key, builder.sign(key, hashes.SHA256())


def write_certificate(directory: Path, host: str, *, is_authority: bool = True) -> TlsFiles:
    """Write a new key and its certificate into a directory, as `key.pem` and `certificate.pem`; as make_certificate()."""
    key, certificate = make_certificate(host, is_authority=is_authority)
    files = TlsFiles(certificate=directory / "certificate.pem", key=directory / "key.pem")
    files.certificate.write_bytes(certificate.public_bytes(Encoding.PEM))
    (directory / "key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    (directory / "key.pem").chmod(0o600)
    return files


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
