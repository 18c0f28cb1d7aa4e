"""Unit tests of headstream.interceptors.by_name."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

import headstream as hs
from headstream.interceptors import Compression, Encryption
from headstream.interceptors.by_name import make_interceptors
from headstream.interceptors.chain import Chain
from tests.unit.interceptors.test_chain import Stamp

VARIABLE = "HEADSTREAM_INTERCEPTORS"

READY = Stamp("ready")


def test_interceptors_of_the_environment_follow_those_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, f"auditing?application=billing, {__name__}:Stamp?region=us,{__name__}:READY")
    with hs.connect("memory://", interceptors=[Stamp("own")]) as log:
        log.create_topic("shop/orders")
        log.send("shop/orders", b"x")
        (message,) = log.poll("shop/orders")
    assert [value.value for value in message.headers.getall("region")] == ["own", "us", "ready"]
    assert message.headers["audit.application"] == "billing"


def test_an_empty_variable_names_no_interceptor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, " , ")
    with hs.connect("memory://") as log:
        assert log._interception is None


def test_every_shipped_interceptor_has_its_options_by_name(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_text(json.dumps({"current": "a", "keys": {"a": base64.b64encode(bytes(32)).decode()}}))
    found = make_interceptors(
        "tracing,auditing?application=x&stamp=false&on_error=raise,compression?algorithm=zstd&min_bytes=0&level=5,"
        f"encryption?key_file={file}&required=true"
    )
    assert [type(each).__name__ for each in found] == ["Tracing", "Guarded", "Compression", "Encryption"]
    message = hs.Message(payload=b"x" * 100, topic="shop/orders")
    chain = Chain([each for each in found if isinstance(each, (Compression, Encryption))])
    sent = chain.send(message)
    assert sent.headers["hs.compression"] == "zstd"
    assert chain.receive(sent) == message


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("trace", "there is no interceptor 'trace'"),
        ("compression?level=high", "the option level of the interceptor compression has the invalid value 'high'"),
        ("compression?size=1", "has no option 'size'"),
        ("auditing?stamp=maybe", "the option stamp"),
        ("auditing?on_error=ignore", "on_error of Auditing"),
        ("encryption?key_file=/nowhere", "key file"),
        ("encryption", "encryption cannot be created"),
        ("no.such.module:Stamp", "cannot be created: ModuleNotFoundError"),
        (f"{__name__}:Missing", "cannot be created: AttributeError"),
        (f"{__name__}:READY?region=eu", "takes no options"),
    ],
)
def test_a_mistake_in_the_variable_is_an_error_that_names_it(monkeypatch: pytest.MonkeyPatch, text: str, what: str) -> None:
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(hs.InvalidOptionError, match=what):
        hs.connect("memory://")
