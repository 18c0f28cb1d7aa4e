"""Unit tests of headstream.interceptors.encryption."""

from __future__ import annotations

import base64
import json
import secrets
from dataclasses import replace
from pathlib import Path

import pytest

import headstream as hs
from headstream.interceptors import Encryption, guard
from tests.unit.interceptors.test_tracing import message

KEY = bytes(range(32))


def test_encryption_hides_the_payload_and_leaves_headers_readable() -> None:
    encryption = Encryption({"a": KEY})
    before = message(b"patient 17", key=b"k", headers=hs.Headers({"clinic": "north"}))
    sent = encryption.on_send(before)
    assert b"patient" not in (sent.payload or b"")
    assert sent.headers["clinic"] == "north"
    assert json.loads(str(sent.headers["hs.encryption"].value)) == {"alg": "A256GCM", "key": "a", "headers": []}
    assert encryption.on_receive(sent) == before
    assert encryption.on_send(before).payload != sent.payload  # another nonce


def test_encryption_finds_changes_of_payload_key_and_authenticated_headers() -> None:
    encryption = Encryption({"a": KEY}, authenticate=["clinic"])
    sent = encryption.on_send(message(b"x", key=b"k", headers=hs.Headers({"clinic": "north", "hop": 1})))
    payload = sent.payload or b""
    changed = [
        replace(sent, payload=payload[:-1] + bytes([payload[-1] ^ 1]), checksum=-1),
        replace(sent, payload=payload[:20], checksum=-1),
        replace(sent, key=b"other"),
        replace(sent, key=None),
        replace(sent, headers=hs.Headers([(key, "south" if key == "clinic" else value) for key, value in sent.headers.items()])),
        replace(sent, headers=sent.headers.without("clinic")),
        replace(sent, headers=sent.headers.with_(("clinic", "again"))),
    ]
    for each in changed:
        with pytest.raises(hs.InvalidInputError, match=r"was changed|cut short"):
            encryption.on_receive(each)
    on_its_way = replace(sent, headers=sent.headers.without("hop").with_(("hop", 2)))
    assert encryption.on_receive(on_its_way).payload == b"x"


def test_encryption_cannot_be_stripped_of_its_authenticated_headers() -> None:
    encryption = Encryption({"a": KEY}, authenticate=["clinic"])
    sent = encryption.on_send(message(b"x", headers=hs.Headers({"clinic": "north"})))
    forged = hs.Headers({"clinic": "south", "hs.encryption": json.dumps({"alg": "A256GCM", "key": "a", "headers": []})})
    with pytest.raises(hs.InvalidInputError, match="was changed"):
        encryption.on_receive(replace(sent, headers=forged))


def test_encryption_rotates_keys() -> None:
    old = Encryption({"a": KEY})
    new = Encryption({"a": KEY, "b": secrets.token_bytes(32)}, current="b")
    assert new.on_receive(old.on_send(message(b"x"))).payload == b"x"
    with pytest.raises(hs.InvalidInputError, match="the key 'b' is unknown"):
        old.on_receive(new.on_send(message(b"x")))


def test_encryption_leaves_null_payloads_and_plain_messages_unless_it_is_required() -> None:
    assert Encryption({"a": KEY}).on_send(message(None)) == message(None)
    assert Encryption({"a": KEY}).on_receive(message(b"plain")) == message(b"plain")
    required = Encryption({"a": KEY}, required=True)
    assert required.on_receive(message(None)) == message(None)
    with pytest.raises(hs.InvalidInputError, match="not encrypted"):
        required.on_receive(message(b"plain"))


def test_encryption_cannot_be_skipped() -> None:
    with pytest.raises(hs.InvalidOptionError, match="cannot have on_error='skip'"):
        guard(Encryption({"a": KEY}), on_error="skip")
    encryption = Encryption({"a": KEY})
    encryption.on_error = "skip"
    with pytest.raises(hs.InvalidOptionError, match="cannot have on_error='skip'"):
        hs.connect("memory://", interceptors=[encryption])


@pytest.mark.parametrize(
    ("keys", "current"), [({"a": b"short"}, None), ({"a": KEY}, "b"), ({"a": KEY, "b": KEY}, None), ({}, None)]
)
def test_encryption_refuses_unusable_keys(keys: dict[str, bytes], current: str | None) -> None:
    with pytest.raises(hs.InvalidOptionError):
        Encryption(keys, current=current)


def test_encryption_reads_a_key_file_and_names_no_key_bytes_in_its_errors(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    text = base64.b64encode(KEY).decode()
    file.write_text(json.dumps({"current": "a", "keys": {"a": text}, "authenticate": ["clinic"]}))
    sent = Encryption.from_file(file).on_send(message(b"x"))
    assert Encryption({"a": KEY}).on_receive(sent).payload == b"x"
    for content in ("{", json.dumps({"current": "a", "keys": {"a": text + "*"}}), "[]", json.dumps({"keys": {"a": text}})):
        file.write_text(content)
        with pytest.raises(hs.InvalidOptionError) as found:
            Encryption.from_file(file)
        assert text not in str(found.value)
