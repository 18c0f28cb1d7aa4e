"""`headstream console`: the routes of the console for a directory and for a server, behind a token that is valid once."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner

import headstream as hs
from headstream.cli.main import cli
from headstream.replicate.parked.ledger import Ledger
from tests.support.server.server_process import ServerProcess

FROM_CONSOLE = {"x-headstream-console": "1", "content-type": "application/json"}
STATES = "/streams/shop/topics/orders/partitions/1/states"


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    json: Any


class Console:
    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self._place = (parts.hostname or "", parts.port or 0)
        self.token = parts.fragment.removeprefix("token=")
        self.cookie = ""

    def call(self, method: str, path: str, body: Any = None, *, cookie: str | None = None) -> Answer:
        connection = http.client.HTTPConnection(*self._place, timeout=120)
        try:
            headers = {**FROM_CONSOLE, "cookie": self.cookie if cookie is None else cookie}
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            data = response.read()
            is_json = response.headers.get_content_type() == "application/json"
            return Answer(response.status, dict(response.getheaders()), json.loads(data) if is_json and data else data)
        finally:
            connection.close()

    def enter(self) -> Answer:
        answer = self.call("POST", "/personal-access-tokens/login", {"token": self.token})
        if answer.status == 200:
            self.cookie = answer.headers["Set-Cookie"].partition(";")[0]
        return answer


@contextmanager
def running(url: str, *options: str) -> Iterator[Console]:
    command = [sys.executable, "-m", "headstream.cli", "console", "--url", url, "--no-browser", *options]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("HEADSTREAM_U")}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        line = process.stdout.readline()
        found = re.fullmatch(r"console (http://127\.0\.0\.1:\d+/console/#token=[\w-]+)\n", line)
        assert found, line or process.stderr.read()
        yield Console(found[1])
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


def fill(url: str) -> None:
    with hs.connect(url) as log:
        log.create_topic("shop/orders", partitions=2)
        with log.producer("shop/orders") as producer:
            for number in range(10):
                producer.send(
                    f"order {number}".encode(), headers=[("n", hs.uint8(number)), ("n", hs.string("again"))], partition=1
                )
        with log.consumer("shop/orders", group="billing") as consumer:
            messages = iter(consumer)
            for _ in range(5):
                next(messages)
            consumer.commit()


@pytest.fixture(scope="module", params=["directory", "server"])
def console(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    directory = tmp_path_factory.mktemp("console") / "data"
    if request.param == "directory":
        fill(f"file://{directory}")
        with running(f"file://{directory}") as found:
            yield found
        return
    with ServerProcess(directory) as server:
        url = f"headstream://iggy:iggy@{server.tcp[0]}:{server.tcp[1]}"
        fill(url)
        with running(url) as found:
            yield found


def test_console_of_any_log_shows_it_and_changes_it_after_one_use_of_its_token(console: Console) -> None:
    assert console.call("GET", "/console/").status == 200
    assert console.call("GET", "/open/topics/visible").status == 401
    assert console.enter().status == 200
    assert console.enter().status == 401  # the token is valid once
    assert console.call("GET", "/open/topics/visible", cookie="headstream_console_1=x").status == 401

    session = console.call("GET", "/console/session").json
    assert session["place"].startswith(("file://", "headstream://127.0.0.1"))
    assert "iggy:iggy" not in json.dumps(session)
    (topic,) = console.call("GET", "/open/topics/visible").json["topics"]
    assert (topic["stream"], topic["name"], len(topic["partitions"])) == ("shop", "orders", 2)

    browse = "/streams/shop/topics/orders/partitions/1/messages/browse"
    messages = console.call("GET", f"{browse}?kind=offset&value=8").json["messages"]
    assert [one["offset"] for one in messages] == [8, 9]
    assert [(one["kind"], one["value"]) for one in messages[0]["headers"]] == [("uint8", "8"), ("string", "again")]
    assert len(console.call("GET", f"{browse}?contains=order%203").json["messages"]) == 1

    assert [one["offset"] for one in console.call("GET", f"{browse}?where=_offset%20%3E%207").json["messages"]] == [8, 9]

    (group,) = console.call("GET", "/open/group-lags").json["groups"]
    assert (group["name"], group["lag"]) == ("billing", 5)
    moved = console.call("PUT", "/streams/shop/topics/orders/consumer-groups/billing/offsets", {"offsets": {"1": 0, "2": 0}})
    assert (moved.status, moved.json["lag"]) == (200, 10)

    assert console.call("PUT", STATES, {"offsets": [3], "state": "poisoned", "reason": "bad"}).status == 204
    (change,) = console.call("GET", f"{STATES}?from_offset=3&count=1").json
    assert (change["offset"], change["state"], change["reason"]) == (3, "poisoned", "bad")

    made = console.call("POST", "/open/topics", {"stream": "made", "name": "here", "partitions_count": 1, "retention_us": 1000})
    assert (made.status, made.json["retention_us"]) == (200, 1000)
    assert console.call("POST", "/streams/made/topics/here/partitions", {"partitions_count": 2}).status == 201
    changed = console.call("PUT", "/open/streams/made/topics/here", {"changes": {"retention_us": None}})
    assert (changed.json["retention_us"], len(changed.json["partitions"])) == (None, 3)
    assert console.call("DELETE", "/streams/made/topics/here/purge").status == 204
    assert console.call("DELETE", "/streams/made/topics/here").status == 204
    assert console.call("GET", "/streams/made/topics/here/partitions/1/messages/browse").status in (400, 404)

    if session["user"] is None:  # a directory
        refused = console.call("GET", "/users")
        assert (refused.status, "needs a server" in refused.json["reason"]) == (400, True)
    else:
        assert session["user"]["username"] == "iggy"
        assert [one["username"] for one in console.call("GET", "/users").json] == ["iggy"]
        assert console.call("GET", "/open/overview").json["messages_count"] == 10
    assert console.call("GET", "/personal-access-tokens").status == 404  # logins are not passed on
    assert console.call("GET", "/what").status == 404


def give_up(url: str) -> None:
    with hs.connect(url) as log:
        log.create_topic("mail/orders")
        for number in range(4):
            log.send("mail/orders", b"%d" % number)
        retry = hs.Retry(1, delay="0s", max_delay="0s")
        with log.consumer("mail/orders", group="g", on_error=retry, dead_letter="mail/dead", timeout_ms=0) as consumer:
            for message in consumer.poll(4):
                consumer.reject(message, reason="unwanted")


@pytest.mark.parametrize("kind", ["directory", "server"])
def test_letters_of_any_log_are_counted_sent_back_and_discarded(tmp_path: Path, kind: str) -> None:
    with ExitStack() as stack:
        url = f"file://{tmp_path}/data"
        if kind == "server":
            server = stack.enter_context(ServerProcess(tmp_path / "data"))
            url = f"headstream://iggy:iggy@{server.tcp[0]}:{server.tcp[1]}"
        give_up(url)
        console = stack.enter_context(running(url))
        console.enter()
        letters = "/streams/mail/topics/dead/partitions/1/letters"
        (reason,) = console.call("GET", f"{letters}/reasons").json["reasons"]
        assert (reason["reason"], reason["group"], reason["count"]) == ("unwanted", "g", 4)
        sent = console.call("POST", f"{letters}/redrive", {"until_offset": 3})
        assert (sent.status, sent.json["redriven"], sent.json["is_last"]) == (200, 3, True)
        assert console.call("POST", f"{letters}/discard", {}).json["discarded"] == 1
        assert console.call("GET", f"{letters}/reasons").json["reasons"] == []
        browse = "/streams/mail/topics/orders/partitions/1/messages/browse?kind=offset&value=4"
        assert len(console.call("GET", browse).json["messages"]) == 3


def test_pipelines_are_read_from_the_checkpoints_that_are_named(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    Ledger(checkpoint / "ledger.sqlite").close()
    with running(f"file://{tmp_path}/data", "--pipeline", str(checkpoint)) as console:
        assert console.call("GET", "/open/pipelines").status == 401
        console.enter()
        (found,) = console.call("GET", "/open/pipelines").json["pipelines"]
        assert (found["checkpoint"], found["error"], found["report"]["state"]) == (str(checkpoint), None, "has not run")
    refused = CliRunner().invoke(cli, ["console", "--url", f"file://{tmp_path}/data", "--pipeline", str(tmp_path / "none")])
    assert refused.exit_code == 2


@pytest.mark.parametrize("way", ["option", "variable"])
def test_a_server_shows_the_pipelines_of_its_settings(tmp_path: Path, way: str) -> None:
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    Ledger(checkpoint / "ledger.sqlite").close()
    flags = ["--pipeline", str(checkpoint)] if way == "option" else []
    environ = {"HEADSTREAM_PIPELINES": f'["{checkpoint}"]'} if way == "variable" else {}
    with ServerProcess(tmp_path / "data", *flags, environ=environ) as server:
        place = http.client.HTTPConnection(*server.http, timeout=120)
        place.request("POST", "/users/login", json.dumps({"username": "iggy", "password": "iggy"}), FROM_CONSOLE)
        logged_in = place.getresponse()
        headers = {**FROM_CONSOLE, "cookie": logged_in.headers["Set-Cookie"].partition(";")[0]}
        logged_in.read()
        place.request("GET", "/open/pipelines", headers=headers)
        (found,) = json.loads(place.getresponse().read())["pipelines"]
        place.close()
    assert (found["checkpoint"], found["report"]["state"]) == (str(checkpoint), "has not run")


def test_console_shows_what_speaks_kafka_s_protocol(tmp_path: Path) -> None:
    pytest.importorskip("confluent_kafka")
    with ServerProcess(tmp_path / "log", "--kafka", "127.0.0.1:0") as server:
        found = re.search(r"^kafka (\S+)$", server.output, re.MULTILINE)
        assert found
        with hs.connect(f"headstream://iggy:iggy@127.0.0.1:{server.tcp[1]}") as log:
            log.create_topic("shop/orders")
            log.send("shop/orders", b"first", headers={"attempt": hs.uint8(3)}, key=b"\xff")
        login = "kafka.security.protocol=SASL_PLAINTEXT&kafka.sasl.mechanism=PLAIN"
        with running(f"kafka://iggy:iggy@{found[1]}?{login}") as console:
            assert console.enter().status == 200
            assert console.call("GET", "/console/session").json["place"] == f"kafka://{found[1]}"
            (topic,) = console.call("GET", "/open/topics/visible").json["topics"]
            assert (topic["stream"], topic["name"]) == ("shop", "orders")
            number = topic["partitions"][-1]["number"]
            browsed = console.call("GET", f"/streams/shop/topics/orders/partitions/{number}/messages/browse").json
            (message,) = browsed["messages"]
            assert [(one["key"], one["kind"], one["value"]) for one in message["headers"]] == [("attempt", "uint8", "3")]
            refused = console.call("GET", "/users")
            assert refused.status == 400
            assert "needs a server" in refused.json["reason"]
