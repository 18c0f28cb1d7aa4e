"""Iggy's current clients, `apache-iggy` 0.9.0 and the Rust crate 0.11.0, unchanged against the running server."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import headstream as hs
from tests.support.server.certificates import write_certificate
from tests.support.server.iggy_environments import KINDS, make_environment, play_today
from tests.support.server.server_process import ServerProcess

ROOT = Path(__file__).parents[3]
RUST = ROOT / ".cache" / "iggy-rust" / "target" / "debug" / "scenarios"
LOGIN = """
import asyncio, sys
from apache_iggy import IggyClient

async def main():
    client = IggyClient(sys.argv[1])
    await client.connect()
    await client.login_user("iggy", "iggy")

asyncio.run(main())
"""
RUST_SCENARIOS = ("administration", "users", "group", "headers")


@pytest.fixture
def stream(request: pytest.FixtureRequest) -> str:
    """A stream of the test's own."""
    return "".join(each if each.isalnum() else "_" for each in request.node.name[5:])[-45:]


@pytest.fixture
def play(today: Path, server: ServerProcess, stream: str) -> Callable[..., Any]:
    """Return a function that plays a scenario over TCP, or over HTTP, and returns its result."""

    def play(name: str, form: str = "tcp") -> Any:
        address = "{}:{}".format(*server.tcp) if form == "tcp" else "http://{}:{}".format(*server.http)
        return play_today(today, address, name, stream)

    return play


@pytest.mark.parametrize("form", ["tcp", pytest.param("http", marks=pytest.mark.nightly)])
def test_today_client_administers_streams_topics_and_groups(play: Callable[..., Any], stream: str, form: str) -> None:
    found = play("administration", form)
    assert "durability" in found["options"][0]
    assert found.pop("options")[1:] == [[], []]
    errors = [error.lower().replace("_", " ") for error in found.pop("errors")]
    for error, word in zip(errors, ("exists", "exists", "option", "not found", "option", "partition"), strict=True):
        assert word in error, errors
    assert found == {
        "compression": ["gzip", "gzip"],
        "expiry_kept": True,
        "group": ["billing", 4 - 1, 0],
        "missing": [None, None],
        "lists": [["europe"], [stream], [0, 1, 2]],
        "has_stats": True,
    }


@pytest.mark.parametrize("form", ["tcp", "http"])
def test_today_client_reads_back_all_kinds_of_headers_and_headstream_reads_them_too(
    play: Callable[..., Any], server: ServerProcess, stream: str, form: str
) -> None:
    found = play("headers", form)
    typed, plain, more = found["messages"]
    assert found["offsets"] == [0, 2]
    assert [each["payload"] for each in (typed, plain, more)] == ["typed", "plain", "more"]
    assert set(typed["headers"]) == set(KINDS)
    assert typed["headers"]["uint8"] == ["UnsignedInt8", 3]
    assert plain["headers"] == {}
    assert 0 < typed["origin_timestamp"] <= typed["timestamp"]
    with hs.connect("headstream://iggy:iggy@{}:{}".format(*server.tcp)) as log:
        received = log.poll(f"{stream}/eu", partition=1, start="first", count=10)
    assert {key: value for key, value in received[0].headers.items() if key != "hs.timestamp"} == KINDS
    if form == "tcp":  # JSON has no time of the sender
        assert received[0].headers["hs.timestamp"] == hs.int64(typed["origin_timestamp"])
    assert str(received[0].id) == typed["id"]


@pytest.mark.parametrize("form", ["tcp", pytest.param("http", marks=pytest.mark.nightly)])
def test_today_client_receives_typed_headers_of_headstream(
    play: Callable[..., Any], server: ServerProcess, stream: str, form: str
) -> None:
    with hs.connect("headstream://iggy:iggy@{}:{}".format(*server.tcp)) as log:
        log.create_topic(f"{stream}/eu", partitions=1)
        with log.producer(f"{stream}/eu") as producer:
            producer.send(b"typed", headers=KINDS, key=b"k")
            producer.send(b"hidden")
            producer.send(b"late")
        log.set_state(f"{stream}/eu", 1, [1], hs.MessageState.POISONED, reason="test")
    typed, late = play("read", form)
    assert typed["headers"].pop("hs.key") == ["Raw", b"k".hex()]
    assert typed["headers"]["uint8"] == ["UnsignedInt8", 3]
    assert typed["headers"]["int128"] == ["Int128", -(1 << 100)]
    assert set(typed["headers"]) == set(KINDS)
    assert (typed["offset"], late["offset"], late["payload"]) == (0, 2, "late")
    assert typed["origin_timestamp"] == typed["timestamp"]


@pytest.mark.parametrize("form", ["tcp", pytest.param("http", marks=pytest.mark.nightly)])
def test_today_client_polls_from_every_position(play: Callable[..., Any], form: str) -> None:
    found = play("offsets", form)
    assert "not found" in found.pop("missing")
    assert found == {
        "pages": [["0", "1", "2", "3"], ["4", "5", "6", "7"], ["8", "9"], []],
        "last": ["8", "9"],
        "from_3": "3",
        "by_time": "0",
        "empty": [],
        "keyed": [1, 1],
    }


def test_today_clients_share_the_partitions_of_a_group(play: Callable[..., Any]) -> None:
    found = play("group")
    first, second = found["got"]
    assert len(first) == len(second) == 20
    assert sorted([*first, *second]) == sorted(f"{partition}-{n}" for partition in range(4) for n in range(10))
    assert found["left"] == []


def test_today_consumer_of_a_group_receives_every_message(play: Callable[..., Any]) -> None:
    assert play("consume") == sorted(f"{partition}-{n}" for partition in range(2) for n in range(5))


@pytest.mark.parametrize("form", ["tcp", pytest.param("http", marks=pytest.mark.nightly)])
def test_today_users_have_their_permissions(play: Callable[..., Any], form: str) -> None:
    found = play("users", form)
    wrong, *refused, inactive = found.pop("errors")
    assert refused == ["Unauthenticated", "Unauthorized", "Unauthorized", "Unauthenticated"]
    assert "invalid credentials" in wrong.lower().replace("_", " ")
    assert inactive == "Unauthenticated" if form == "tcp" else "user_inactive" in inactive
    assert found == {"made": True, "polled": [], "listed": True}


def test_the_program_of_the_readme_with_iggys_client_runs(today: Path, server: ServerProcess) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    [program] = [block for block in blocks if "apache_iggy" in block]
    with hs.connect("headstream://iggy:iggy@{}:{}".format(*server.tcp)) as log:
        log.create_topic("shop/orders", partitions=4)  # as the program before it does
    program = program.replace("127.0.0.1:8090", "{}:{}".format(*server.tcp))
    done = subprocess.run([str(today), "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert not done.returncode, done.stderr
    assert "b'tea' {" in done.stdout
    assert "attempt" in done.stdout


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server over TLS, with the file of its authority."""
    place = tmp_path_factory.mktemp("tls")
    files = write_certificate(place, "127.0.0.1", is_authority=False)
    (place / "both.pem").write_bytes(files.certificate.read_bytes() + (place / "key.pem").read_bytes())
    (place / "both.pem").chmod(0o600)
    environ = {"IGGY_TCP_TLS_ENABLED": "true", "IGGY_TCP_TLS_CERTIFICATE": str(place / "both.pem")}
    with ServerProcess(place / "log", environ=environ) as server:
        yield "{}:{}{}".format(*server.tcp, files.certificate)
        assert server.stop() == 0, server.output


@pytest.mark.nightly
def test_today_client_reads_back_its_headers_over_tls(today: Path, encrypted: str, stream: str) -> None:
    assert set(play_today(today, encrypted, "headers", stream)["messages"][0]["headers"]) == set(KINDS)


@pytest.mark.nightly
def test_a_client_of_a_generation_between_is_refused_at_login_and_the_log_names_versions_that_work(server: ServerProcess) -> None:
    between = make_environment("0.8.0", "apache-iggy")
    command = [str(between), "-c", LOGIN, "{}:{}".format(*server.tcp)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "InvalidVersion" in done.stderr
    assert "use SDK 0.11 (apache-iggy 0.9.0)" in server.output


def run_rust(address: str, scenario: str, stream: str) -> str:
    """Run a scenario of the Rust client, which checks what it does; return what it prints."""
    if not RUST.exists():
        pytest.skip("tools/install_nightly_tools.sh builds the scenarios of the Rust client, which needs cargo")
    done = subprocess.run([str(RUST), address, scenario, stream], capture_output=True, text=True, timeout=60, check=False)
    assert not done.returncode, done.stderr[-2000:]
    return done.stdout


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("scenario", "form"),
    [(name, form) for name in RUST_SCENARIOS for form in ("tcp", "http", "tls") if (name, form) != ("group", "http")],
)
def test_rust_client_works(server: ServerProcess, encrypted: str, stream: str, scenario: str, form: str) -> None:
    http = "http://{}:{}".format(*server.http)
    run_rust({"tcp": "{}:{}".format(*server.tcp), "http": http, "tls": encrypted}[form], scenario, stream)


@pytest.mark.nightly
def test_typed_headers_pass_between_the_rust_client_and_headstream(server: ServerProcess, stream: str) -> None:
    address = "{}:{}".format(*server.tcp)
    run_rust(address, "headers", stream)
    with hs.connect(f"headstream://iggy:iggy@{address}") as log:
        [received] = log.poll(f"{stream}/eu", partition=1, start="first", count=10)
        assert {key: value for key, value in received.headers.items() if key != "hs.timestamp"} == KINDS
        log.create_topic(f"{stream}-back/eu", partitions=1)
        with log.producer(f"{stream}-back/eu") as producer:
            producer.send(b"typed", headers=KINDS)
    lines = [line.split(" ", 2) for line in run_rust(address, "read", f"{stream}-back").splitlines()]
    assert {key: (kind, data) for key, kind, data in lines} == {
        key: (value.kind_name, str(list(value.data))) for key, value in KINDS.items()
    }
