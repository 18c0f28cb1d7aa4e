"""Payload encryption with AES-256-GCM; headers stay readable.

    header hs.encryption   {"alg": "A256GCM", "key": <key name>, "headers": [<name>, …]}
    payload                nonce (12 bytes) | ciphertext | tag (16 bytes)

The payload, the message's key, the header hs.encryption and the headers that it lists are authenticated, so a change of any of
them is detected. Other headers can be added and changed in transit, for example by a mirror or a router.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from headstream.core.model.headers import Headers
from headstream.core.model.message import Message
from headstream.core.model.reserved import ENCRYPTION_HEADER
from headstream.errors import InvalidInputError, InvalidOptionError, MissingExtraError
from headstream.interceptors.interceptor import ErrorPolicy, Interceptor

_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12
_TAG_BYTES: Final = 16
_ALGORITHM: Final = "A256GCM"


class Encryption(Interceptor):
    """Encrypts payloads when they are sent, and decrypts them when received.

    A null payload is not encrypted. Messages without the header `hs.encryption` are delivered unchanged, unless `required` is
    set. Nonces are random, so a key is safe for at most 2^32 messages: set a new current key before this number is reached.

    Args:
        keys: Name of each key -> 32 random bytes; must contain every key with which received messages are encrypted.
        current: The name of the key that encrypts sent messages; by default the only key.
        authenticate: Names of headers to authenticate; a change in transit is detected.
        required: Whether receiving a message that is not encrypted is an error.

    Raises:
        InvalidOptionError: a key does not have 32 bytes, or `current` is not the name of a key.
        MissingExtraError: cryptography is not installed (the extra `encryption`).
    """

    refused_policies = (ErrorPolicy.SKIP,)
    """Skipping this interceptor would send the payload in clear."""

    def __init__(
        self, keys: Mapping[str, bytes], *, current: str | None = None, authenticate: Iterable[str] = (), required: bool = False
    ) -> None:
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError as error:
            raise MissingExtraError(f"encryption requires {error.name}", advice="Install headstream[encryption]") from None
        for name, key in keys.items():
            if not isinstance(key, bytes) or len(key) != _KEY_BYTES:
                raise InvalidOptionError(f"the key {name!r} must have {_KEY_BYTES} bytes", advice="Use secrets.token_bytes(32)")
        if current is None and len(keys) == 1:
            current = next(iter(keys))
        if current not in keys:
            raise InvalidOptionError(f"the current key {current!r} is not among the keys", advice="Specify a name in keys=")
        self._ciphers = {name: AESGCM(key) for name, key in keys.items()}
        self._current = current
        names = sorted(set(authenticate))
        self._header = json.dumps({"alg": _ALGORITHM, "key": current, "headers": names}, separators=(",", ":"))
        self._names = names
        self._required = required

    @classmethod
    def from_file(cls, key_file: str | Path, *, required: bool = False) -> Encryption:
        """Create the interceptor from a key file: JSON {"current": name, "keys": {name: base64}, "authenticate": [header]}.

        Args:
            key_file: Path of the key file; `authenticate` is optional.
            required: As for Encryption.

        Raises:
            InvalidOptionError: the file cannot be read, or its content is invalid.
        """
        try:
            found = json.loads(Path(key_file).read_text(encoding="utf-8"))
            keys = {name: base64.b64decode(text, validate=True) for name, text in found["keys"].items()}
            current, authenticate = found["current"], found.get("authenticate", [])
        except (OSError, ValueError, KeyError, AttributeError, TypeError, binascii.Error) as error:
            raise InvalidOptionError(
                f"cannot load the key file: {type(error).__name__}",  # never the file content, which can contain key bytes
                where=str(key_file),
                advice='Write {"current": "a", "keys": {"a": "<32 bytes in base64>"}}',
            ) from None
        return cls(keys, current=current, authenticate=authenticate, required=required)

    def on_send(self, message: Message) -> Message:
        """Encrypt a payload, and add the header."""
        if message.payload is None:
            return message
        if ENCRYPTION_HEADER in message.headers:
            raise InvalidInputError(f"the message already has a header {ENCRYPTION_HEADER}", advice="Remove this header")
        nonce = os.urandom(_NONCE_BYTES)
        bound = _bound_bytes(self._header, message, self._names)
        payload = nonce + self._ciphers[self._current or ""].encrypt(nonce, message.payload, bound)
        headers = message.headers.with_((ENCRYPTION_HEADER, self._header))
        return replace(message, payload=payload, headers=headers, checksum=-1)

    def on_receive(self, message: Message) -> Message:
        """Decrypt a payload, and remove the header."""
        found = message.headers.get(ENCRYPTION_HEADER)
        if found is None or message.payload is None:
            if self._required and message.payload is not None:
                raise InvalidInputError("the message is not encrypted", advice="Omit required=True to receive such messages")
            return message
        text = str(found.value)
        name, names = _parse_header(text)
        cipher = self._ciphers.get(name)
        if cipher is None:
            raise InvalidInputError(f"the key {name!r} is unknown", advice=f"Use one of {', '.join(self._ciphers)}")
        if len(message.payload) < _NONCE_BYTES + _TAG_BYTES:
            raise InvalidInputError("the encrypted payload is cut short")
        from cryptography.exceptions import InvalidTag

        nonce, sealed = message.payload[:_NONCE_BYTES], message.payload[_NONCE_BYTES:]
        try:
            payload = cipher.decrypt(nonce, sealed, _bound_bytes(text, message, names))
        except InvalidTag:
            raise InvalidInputError(
                "the payload, the message's key or an authenticated header was changed, or another encryption key was used"
            ) from None
        return replace(message, payload=payload, headers=message.headers.without(ENCRYPTION_HEADER), checksum=-1)


def _parse_header(text: str) -> tuple[str, list[str]]:
    """Return the name of the key and the authenticated headers."""
    try:
        found: Any = json.loads(text)
        algorithm, name, names = found["alg"], found["key"], found["headers"]
    except (ValueError, KeyError, TypeError):
        raise InvalidInputError(f"{ENCRYPTION_HEADER} has the invalid value {text!r}") from None
    if algorithm != _ALGORITHM or not isinstance(name, str) or not isinstance(names, list):
        raise InvalidInputError(f"the encryption algorithm {algorithm!r} is unknown", advice=f"Use {_ALGORITHM}")
    return name, [str(each) for each in names]


def _bound_bytes(header: str, message: Message, names: list[str]) -> bytes:
    """Return the additional authenticated data of a payload; each part follows its length."""
    pairs = [(key, value) for key, value in message.headers.items() if key in names]
    parts = header.encode(), b"\x00" if message.key is None else b"\x01" + message.key, Headers(pairs).as_bytes()
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)
