"""Logins by SCRAM: the example of RFC 7677, and what is refused."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from headstream.broker.accounts.scram import SCRAM_HASHES, ScramLogin, Verifier, find_verifier, make_verifiers
from headstream.errors import AuthenticationError

_SHA_256 = "SCRAM-SHA-256"
_NONCE = "rOprNGfwEbeRWgbNEkqO"
_MORE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
_FIRST = f"n,,n=user,r={_NONCE}".encode()
_PROOF = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
_LAST = f"c=biws,r={_NONCE}{_MORE},p={_PROOF}"


def _pencil(name: str = "user") -> Verifier:
    """Return the verifier of the example, of the password `pencil`."""
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", salt, 4096)
    client_key, server_key = (hmac.digest(salted, text, "sha256") for text in (b"Client Key", b"Server Key"))
    return Verifier(4096, salt, hashlib.sha256(client_key).digest(), server_key)


def _begun() -> ScramLogin:
    login = ScramLogin(_SHA_256, _pencil, _MORE)
    assert login.begin(_FIRST) == f"r={_NONCE}{_MORE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
    return login


def test_scram_login_answers_as_the_rfc_when_its_example_comes() -> None:
    assert _begun().end(_LAST.encode()) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@pytest.mark.parametrize("proof", [_PROOF.replace("dHz", "eHz"), "dHzb"])
def test_scram_login_answers_nothing_when_the_proof_is_wrong(proof: str) -> None:
    assert _begun().end(_LAST.replace(_PROOF, proof).encode()) is None


@pytest.mark.parametrize("name", ["a=2Cb=3Dc", "=3D2C"])
def test_scram_login_reads_the_name_as_the_rfc_escapes_it(name: str) -> None:
    login = ScramLogin(_SHA_256, _pencil, _MORE)
    login.begin(f"n,a={name},n={name},r=x".encode())
    assert login.username == {"a=2Cb=3Dc": "a,b=c", "=3D2C": "=2C"}[name]


@pytest.mark.parametrize(
    "first",
    [b"", b"\xff", b"n,,n=user", b"p=tls-unique,,n=user,r=x", b"n,a=root,n=user,r=x", b"n,,n=us=er,r=x",
     b"n,,n=user,r=x,tokenauth=true", b"n,,m=1,n=user,r=x"],
)  # fmt: skip
def test_scram_login_refuses_a_first_message_that_it_does_not_serve(first: bytes) -> None:
    with pytest.raises(AuthenticationError):
        ScramLogin(_SHA_256, _pencil, _MORE).begin(first)


@pytest.mark.parametrize(
    "last", ["", _LAST.replace("biws", "eSws"), _LAST.replace(_MORE, _MORE[:-1]), _LAST.replace("biws", "b==ws"), "p=" + _PROOF]
)
def test_scram_login_refuses_a_last_message_that_belongs_to_no_first_one(last: str) -> None:
    with pytest.raises(AuthenticationError):
        _begun().end(last.encode())


@pytest.mark.parametrize(("mechanism", "name"), list(SCRAM_HASHES.items()))
def test_find_verifier_returns_the_keys_that_make_verifiers_made(mechanism: str, name: str) -> None:
    found = find_verifier(make_verifiers("pencil"), mechanism)
    salted = hashlib.pbkdf2_hmac(name, b"pencil", found.salt, found.iterations)
    assert found.server_key == hmac.digest(salted, b"Server Key", name)
    assert found.stored_key == hashlib.new(name, hmac.digest(salted, b"Client Key", name)).digest()
