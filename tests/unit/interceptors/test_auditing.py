"""Unit tests of headstream.interceptors.auditing."""

from __future__ import annotations

import json
from typing import Any

import pytest

import headstream as hs
from headstream.interceptors import Auditing
from tests.unit.interceptors.test_tracing import message


def test_auditing_adds_a_set_of_typed_headers_at_each_step() -> None:
    steps: list[dict[str, Any]] = []
    sent = Auditing("teller", record=steps.append).on_send(message(b"x"))
    sent = Auditing("approval", record=steps.append).on_send(sent)
    assert [value.value for value in sent.headers.getall("audit.application")] == ["teller", "approval"]
    assert [value.value for value in sent.headers.getall("audit.number")] == [1, 1]
    assert sent.headers["audit.time"].kind_name == "int64"
    assert [step["step"] for step in steps] == ["sent", "sent"]


def test_auditing_records_every_step_of_a_message() -> None:
    steps: list[dict[str, Any]] = []
    with hs.connect("memory://", interceptors=[Auditing("teller", record=steps.append)]) as log:
        log.create_topic("shop/orders")
        log.send("shop/orders", b"x")
        with log.consumer("shop/orders", group="billing", timeout_ms=0) as consumer:
            list(consumer)
    assert [(step["step"], step["topic"], step.get("offset")) for step in steps] == [
        ("sent", "shop/orders", None),
        ("stored", "shop/orders", 0),
        ("received", "shop/orders", 0),
        ("committed", "shop/orders", None),
    ]
    assert steps[-1]["offsets"] == {"1": 1}


def test_auditing_records_lines_of_json_by_default(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="headstream.audit")
    Auditing("teller").on_acknowledged(message(b"x"), ValueError("as arranged"))
    (line,) = caplog.messages
    assert json.loads(line)["error"] == "ValueError: as arranged"
