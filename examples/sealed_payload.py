"""A sealed payload with readable headers: everyone can read the headers, and only holders of the key can read the payload.

    pip install cryptography
    python examples/sealed_payload.py

The headers are authenticated with the payload (as associated data of AES-GCM), so changes of a header are detected. Without the
package cryptography, the payload and the headers are only signed (HMAC-SHA256, from the standard library): changes are detected,
but the payload is readable.
"""

import hashlib
import hmac
import secrets
from collections.abc import Callable

import headstream as hs

KEY = secrets.token_bytes(32)
SEAL = "seal"


def seal(payload: bytes, headers: hs.Headers) -> tuple[bytes, hs.Headers]:
    """Return the sealed payload, and the headers with the seal."""
    bound = headers.as_bytes()  # includes the kinds and the order
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        tag = hmac.digest(KEY, bound + payload, "sha256")
        return payload, headers.with_((SEAL, tag), ("seal.kind", "hmac-sha256"))
    nonce = secrets.token_bytes(12)
    return AESGCM(KEY).encrypt(nonce, payload, bound), headers.with_((SEAL, nonce), ("seal.kind", "aes-256-gcm"))


def unseal(message: hs.Message) -> bytes:
    """Return the payload; ValueError if the payload or a header was changed."""
    bound = message.headers.without(SEAL).without("seal.kind").as_bytes()
    sealed, tag = message.payload or b"", message.headers[SEAL].as_raw()
    if message.headers["seal.kind"] == "hmac-sha256":
        if not hmac.compare_digest(tag, hmac.digest(KEY, bound + sealed, hashlib.sha256)):
            raise ValueError("the payload or a header was changed")
        return sealed
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        return AESGCM(KEY).decrypt(tag, sealed, bound)
    except InvalidTag:
        raise ValueError("the payload or a header was changed") from None


def refusal(check: Callable[[], object]) -> str:
    """Return the message of the ValueError that a call raises."""
    try:
        check()
    except ValueError as error:
        return str(error)
    raise AssertionError("the call raised no ValueError")


log = hs.connect("memory://")
log.create_topic("clinic/results")
with log.producer("clinic/results") as producer:
    payload, headers = seal(b"patient 17: negative", hs.Headers({"clinic": "north", "urgent": False, "version": hs.uint8(2)}))
    producer.send(payload, headers=headers)

(message,) = log.poll("clinic/results", start="first")
print("readable without the key:", {key: value.value for key, value in message.headers.items() if key != SEAL})
print("sealed with", message.headers["seal.kind"], "- readable with the key:", unseal(message).decode())

pairs = [(key, hs.bool(True) if key == "urgent" else value) for key, value in message.headers.items()]
forged = hs.Message(payload=message.payload, headers=hs.Headers(pairs))
print("a changed header:", refusal(lambda: unseal(forged)))

log.close()
