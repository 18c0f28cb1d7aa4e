"""SCRAM (RFC 5802 and 7677): a login in which neither side sends the password; sans-IO.

    verifiers    for SHA-256, then SHA-512:   iterations u32 | salt 16 | stored key | server key      big-endian

    client       n,,n=alice,r=NONCE                         the gs2 header, the user name, the client's nonce
    server       r=NONCEMORE,s=SALT,i=ITERATIONS
    client       c=biws,r=NONCEMORE,p=PROOF                 the gs2 header in base64, the proof of the password
    server       v=SIGNATURE                                the proof that the server has the verifier

A stolen verifier does not allow a login, but allows password guesses at the rate of PBKDF2, which is higher than for bcrypt.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import re
import struct
from collections.abc import Callable
from typing import Final, NamedTuple

from headstream.core.wire.refusals import refusal
from headstream.core.wire.statuses import Status
from headstream.errors import HeadstreamError

SCRAM_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""The hash of each mechanism, in the order of the stored verifiers."""

ITERATIONS: Final = 15_000
"""RFC 7677 requires 4,096 and recommends 15,000: about 10 ms of a client's time for each connection."""
SALT_BYTES: Final = 16
_HEAD: Final = struct.Struct(f">I{SALT_BYTES}s")
_FIRST: Final = re.compile(r"([ny],(?:a=([^,]+))?,)(n=([^,]+),r=([!-+\--~]+)((?:,[A-Za-z]=[^,]+)*))")
_FINAL: Final = re.compile(r"(c=([A-Za-z0-9+/=]+),r=([!-+\--~]+)),p=([A-Za-z0-9+/=]+)")
_NAME_ESCAPE: Final = re.compile("=(2C|3D)?")


class Verifier(NamedTuple):
    """The stored verifier of a password for one mechanism."""

    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes


def make_verifiers(password: str) -> bytes:
    """Return the verifiers of a password, for storage; takes 20 ms. As in Kafka clients, the password is not normalized."""
    parts = []
    for name in SCRAM_HASHES.values():
        salt = os.urandom(SALT_BYTES)
        salted = hashlib.pbkdf2_hmac(name, password.encode("utf-8", "surrogatepass"), salt, ITERATIONS)
        client_key, server_key = (hmac.digest(salted, text, name) for text in (b"Client Key", b"Server Key"))
        parts.append(_HEAD.pack(ITERATIONS, salt) + hashlib.new(name, client_key).digest() + server_key)
    return b"".join(parts)


def find_verifier(stored: bytes, mechanism: str) -> Verifier:
    """Return the verifier for a mechanism (of SCRAM_HASHES) from the result of make_verifiers()."""
    at = 0
    for known, name in SCRAM_HASHES.items():
        size = hashlib.new(name).digest_size
        if known == mechanism:
            iterations, salt = _HEAD.unpack_from(stored, at)
            keys = at + _HEAD.size
            return Verifier(iterations, salt, stored[keys : keys + size], stored[keys + size : keys + 2 * size])
        at += _HEAD.size + 2 * size
    raise AssertionError(f"{mechanism} is not a supported SCRAM mechanism")


class ScramLogin:
    """One login, message by message.

    Args:
        find: Returns the verifier of a user; for a user without a verifier, a verifier that no password matches.
        nonce: The server's part of the nonce, printable ASCII without commas.
    """

    def __init__(self, mechanism: str, find: Callable[[str], Verifier], nonce: str) -> None:
        self._hash = SCRAM_HASHES[mechanism]
        self._find = find
        self._nonce = nonce
        self._gs2 = self._signed = b""
        self._verifier: Verifier | None = None
        self.username = ""

    def begin(self, message: bytes) -> bytes:
        """Return the response to the first message; AuthenticationError (42) if the message is invalid."""
        found = _FIRST.fullmatch(_text(message))
        if found is None or "=" in _NAME_ESCAPE.sub(lambda each: "" if each[1] else "=", found[4]):
            raise _invalid("the first SCRAM message is invalid")
        gs2, acting_as, bare, name, nonce, extensions = found.groups()
        self.username = _unescape(name)
        if acting_as is not None and _unescape(acting_as) != self.username:
            raise _invalid("a user cannot act as another user")
        if extensions:
            raise _invalid("SCRAM extensions, such as delegation tokens, are not supported")
        self._verifier = verifier = self._find(self.username)
        self._nonce = nonce + self._nonce
        salt = base64.b64encode(verifier.salt).decode()
        reply = f"r={self._nonce},s={salt},i={verifier.iterations}".encode()
        self._gs2, self._signed = gs2.encode(), bare.encode() + b"," + reply
        return reply

    def end(self, message: bytes) -> bytes | None:
        """Return the response to the last message; None if the password is wrong. AuthenticationError (42): invalid message."""
        found = _FINAL.fullmatch(_text(message))
        if found is None or self._verifier is None:
            raise _invalid("the final SCRAM message is invalid")
        unsigned, gs2, nonce, proof = found[1].encode(), _decode(found[2]), found[3], _decode(found[4])
        if gs2 != self._gs2 or nonce != self._nonce:
            raise _invalid("the final SCRAM message belongs to another login")
        signed = self._signed + b"," + unsigned
        signature = hmac.digest(self._verifier.stored_key, signed, self._hash)
        if len(proof) != len(signature):
            return None
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        if not hmac.compare_digest(hashlib.new(self._hash, client_key).digest(), self._verifier.stored_key):
            return None
        return b"v=" + base64.b64encode(hmac.digest(self._verifier.server_key, signed, self._hash))


def _text(message: bytes) -> str:
    try:
        return message.decode("utf-8")
    except UnicodeDecodeError:
        raise _invalid("a SCRAM message is not UTF-8") from None


def _unescape(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise _invalid("a SCRAM message is not base64") from None


def _invalid(what: str) -> HeadstreamError:
    return refusal(Status.INVALID_CREDENTIALS, what)
