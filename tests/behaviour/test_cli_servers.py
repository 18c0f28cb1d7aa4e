"""The command line over a network: what is asked of a server, and the same commands as for a log in a directory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import headstream as hs
from headstream.cli.main import cli
from headstream.testing.local_server import LocalServer


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalServer]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("CONTEXT", "USERNAME", "PASSWORD", "TOKEN"):
        monkeypatch.delenv(f"HEADSTREAM_{name}", raising=False)
    with LocalServer() as server:
        monkeypatch.setenv("HEADSTREAM_URL", server.url)
        yield server


def invoke(*arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(cli, arguments, input=stdin)


def run(*arguments: str, stdin: str = "") -> Any:
    result = invoke(*arguments, "--output", "json", stdin=stdin)
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def test_messages_groups_and_states_are_handled_over_the_network(server: LocalServer) -> None:
    run("topic", "create", "shop/orders", "--partitions", "2")
    run("send", "shop/orders", "hello", "--partition", "2", "--header", "attempt=uint8:3")
    (message,) = run("poll", "shop/orders", "--partition", "2")
    assert message["headers"] == [{"key": "attempt", "kind": "uint8", "value": 3}]
    assert [row["lag"] for row in run("group", "seek", "shop/orders", "billing", "first")] == [0, 1]
    assert [row["group"] for row in run("group", "list", "shop/orders")] == ["billing"]
    run("group", "delete", "shop/orders", "billing", "--yes")
    assert run("group", "list", "shop/orders") == []
    run("partition", "set-state", "shop/orders", "poisoned", "0", "--partition", "2", "--reason", "no JSON")
    assert [row["by"] for row in run("partition", "states", "shop/orders", "--partition", "2")] == ["iggy"]


def test_users_are_made_shown_changed_and_deleted(server: LocalServer) -> None:
    with hs.connect(server.url) as log:
        log.create_topic("shop/orders")
    rights = ["--allow", "read_servers,read_users", "--allow", "shop=read_stream", "--allow", "shop/orders=all"]
    made = run("user", "create", "ann", *rights, stdin="secret1\n")
    spelled = ["read_servers,read_users", "shop=read_stream", "shop/orders=manage_topic,read_topic,poll_messages,send_messages"]
    assert made["rights"] == run("user", "show", "ann")["rights"] == spelled
    run("user", "permissions", "ann", "--allow", "all")
    assert run("user", "show", "ann")["rights"][0].startswith("manage_servers,read_servers")
    run("user", "password", "ann", stdin="secret1\nsecret2\n")
    hers = server.url.replace("iggy:iggy", "ann:secret2")
    assert run("me", "--url", hers)["username"] == "ann"
    assert run("user", "permissions", "ann")["rights"] == []
    assert not run("user", "update", "ann", "--inactive")["active"]
    assert "cannot log in" in invoke("ping", "--url", hers).output
    assert [row["name"] for row in run("user", "list")] == ["iggy", "ann"]
    run("user", "delete", "ann", "--yes")
    result = invoke("user", "show", "ann")
    assert (result.exit_code, "there is no user 'ann'" in result.output) == (1, True)
    result = invoke("user", "create", "bob", "--allow", "fly", stdin="secret1\n")
    assert (result.exit_code, "there is no global right 'fly'" in result.output) == (2, True)
    several = ("--allow", "read_users", "--allow", "shop=read_stream", "--allow", "read_servers", "--allow", "shop=read_topics")
    made = run("user", "create", "bob", *several, stdin="secret1\n")
    assert made["rights"] == ["read_servers,read_users", "shop=read_stream,read_topics"]
    assert invoke("user", "update", "iggy").exit_code == 2


def test_a_token_is_shown_once_and_logs_in(server: LocalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    token = run("token", "create", "nightly", "--expires", "30d")["token"]
    (listed,) = run("token", "list")
    assert run("token", "show", "nightly") == listed
    assert listed["name"] == "nightly"
    assert listed["expires_us"] > 0
    host, port = server.tcp_address
    assert run("topic", "list", "--url", f"headstream://:{token}@{host}:{port}") == []
    monkeypatch.setenv("HEADSTREAM_TOKEN", token)
    assert run("topic", "list", "--url", f"headstream://{host}:{port}") == []
    run("token", "delete", "nightly")
    result = invoke("topic", "list", "--url", f"headstream://{host}:{port}")
    assert result.exit_code == 1
    assert token not in result.output


def test_the_server_says_how_it_is(server: LocalServer, tmp_path: Path) -> None:
    assert [row["milliseconds"] > 0 for row in run("ping", "--count", "2")] == [True, True]
    assert run("stats")["clients_count"] >= 1
    me = run("me")
    assert me["username"] == "iggy"
    assert run("client", "list")[0]["username"] == "iggy"
    assert invoke("client", "show", str(me["id"])).exit_code == 1  # that connection is over
    written = run("snapshot", str(tmp_path / "server.zip"))
    assert (tmp_path / "server.zip").read_bytes()[:2] == b"PK"
    assert written["size_bytes"] == (tmp_path / "server.zip").stat().st_size
    for command in ("stats", "me", "ping"):
        assert "\n" in invoke(command).output


def test_a_context_has_a_server_and_asks_for_its_password(server: LocalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    host, port = server.tcp_address
    monkeypatch.delenv("HEADSTREAM_URL")
    run("context", "create", "here", f"headstream://iggy@{host}:{port}")
    result = invoke("topic", "list")
    assert (result.exit_code, "the password is missing" in result.output) == (2, True)
    monkeypatch.setenv("HEADSTREAM_PASSWORD", "iggy")
    assert run("topic", "list") == []
    monkeypatch.delenv("HEADSTREAM_PASSWORD")
    run("context", "delete", "here")
    run("context", "create", "here", f"headstream://iggy@{host}:{port}", "--keep-secret", stdin="iggy\n")
    assert run("topic", "list") == []


def test_verify_and_backup_refuse_the_url_of_a_server_without_showing_the_password(server: LocalServer, tmp_path: Path) -> None:
    for arguments in (("verify",), ("backup", str(tmp_path / "copy"))):
        result = invoke(*arguments, "--url", "headstream://ann:s3cret@host")
        assert result.exit_code == 2
        assert "Only a log in a directory" in result.output
        assert "s3cret" not in result.output
