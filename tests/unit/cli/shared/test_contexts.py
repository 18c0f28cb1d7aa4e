"""Unit tests of headstream.cli.shared.contexts."""

from __future__ import annotations

import pytest

from headstream.cli.shared.contexts import Context, Contexts, contexts_path
from tests.unit.cli.test_context import home, invoke, run

__all__ = ["home"]  # fixtures


def test_secrets_are_kept_where_nobody_else_reads_and_never_shown() -> None:
    run("context", "create", "kept", "headstream://ann:s%2Fcret@mq:1?tls=true")
    run("context", "create", "read", "headstream://bob@mq:2", "--keep-secret", stdin="t0psecret\n")
    run("context", "create", "asked", "http://eve@mq:3")
    run("context", "create", "token", "headstream://:tok/+@mq:4")
    path = contexts_path()
    assert path.stat().st_mode & 0o777 == 0o600
    shown = invoke("context", "list").output + invoke("context", "show", "kept", "--output", "json").output
    for secret in ("s/cret", "s%2Fcret", "t0psecret", "tok/", "tok%2F"):
        assert secret not in shown
    assert [row["secret"] for row in run("context", "list")] == ["asked for", "kept", "kept", "kept"]
    contexts = Contexts(path)
    assert contexts.get("kept").to_url() == "headstream://ann:s%2Fcret@mq:1?tls=true"
    assert contexts.get("read").to_url() == "headstream://bob:t0psecret@mq:2"
    assert contexts.get("asked").to_url() == "http://eve@mq:3"
    assert contexts.get("token").to_url() == "headstream://:tok%2F%2B@mq:4"
    assert "cret" not in repr(contexts.get("kept"))


def test_context_is_refused_when_its_name_or_url_is_invalid() -> None:
    run("context", "create", "a", "file:///tmp/x")
    for arguments, text in (
        (("create", "a", "file:///tmp/y"), "the context 'a' already exists"),
        (("use", "b"), "there is no context 'b'"),
        (("update", "b", "file:///tmp/y"), "there is no context 'b'"),
        (("create", "b", "nothing"), "the value is not a URL"),
    ):
        result = invoke("context", *arguments)
        assert result.exit_code in (1, 2)
        assert text in result.output
    contexts_path().write_text("[1]")
    assert "the file contains no valid contexts" in invoke("context", "list").output


@pytest.mark.parametrize("url", ["headstream://a:b@h:1?tls=true", "http://a@h", "headstream://:t@h", "file:///x", "memory://n"])
def test_a_url_comes_back_as_it_was(url: str) -> None:
    assert Context.of_url(url).to_url() == url
