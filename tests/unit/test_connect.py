"""connect: which URLs are understood, and what is said about the others."""

from __future__ import annotations

from pathlib import Path

import pytest

import headstream as hs


def test_file_urls_name_a_directory(tmp_path: Path) -> None:
    odd = tmp_path / "my log #1?"
    with hs.connect(odd.as_uri()) as log:
        log.create_stream("shop")
    assert (odd / "headstream.json").is_file()
    with hs.connect(f"file://localhost{tmp_path}/plain") as log:
        assert log.streams() == []


def test_the_environment_gives_the_url_when_none_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADSTREAM_URL", tmp_path.as_uri())
    with hs.connect() as log:
        log.create_stream("shop")
    assert (tmp_path / "headstream.json").is_file()
    monkeypatch.delenv("HEADSTREAM_URL")
    with pytest.raises(hs.InvalidUrlError, match=r"the URL is missing.*HEADSTREAM_URL"):
        hs.connect()


def test_memory_urls_are_private_without_a_name_and_shared_with_one() -> None:
    with hs.connect("memory://") as one, hs.connect("memory://") as two:
        one.create_stream("shop")
        assert two.streams() == []
    with hs.connect("memory://shared") as one, hs.connect("memory://shared") as two:
        one.create_stream("shop")
        assert [stream.name for stream in two.streams()] == ["shop"]
        assert one.identity == two.identity is not None


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("file://relative/dir", r"not an absolute path\. Use three slashes: file:///.*/relative/dir"),
        ("file:relative", "not an absolute path"),
        ("file://~/log", r"Use three slashes: file:///"),
        ("/var/lib/shop", r"'/var/lib/shop' is not a URL\. For a directory, write file:///var/lib/shop"),
        ("shop", r"'shop' is not a URL\. For a directory, write file:///"),
        ("file:///a?segment_bytes=5", r"must not have a query or a fragment\. Pass options to connect"),
        ("file:///a#b", "must not have a query or a fragment"),
        ("file:///a%00b", "must not contain NUL"),
        ("memory://name/path", r"must not have a path: a log in memory has only a name"),
        ("kafka://host", r"the URL must name a Kafka cluster .*Write kafka://host:9092"),
        ("quic://host", "the user name is missing"),
        ("http://host", "the user name is missing"),
        ("headstream://host/path", "a server.s URL must not have a path"),
        ("ftp://host", "ftp:// is not a supported scheme"),
        ("http://[::1", "the URL is invalid"),
    ],
)
def test_other_urls_are_refused_with_what_to_write(url: str, text: str) -> None:
    with pytest.raises(hs.InvalidUrlError, match=text):
        hs.connect(url)


def test_passwords_are_not_repeated_in_an_error() -> None:
    with pytest.raises(hs.InvalidUrlError) as caught:
        hs.connect("kafka://user:secret@host")
    assert "secret" not in str(caught.value)


def test_options_are_checked_by_name_and_range() -> None:
    with pytest.raises(hs.InvalidOptionError, match=r"no option 'segment_byte'\. Did you mean 'segment_bytes'"):
        hs.connect("memory://", segment_byte=5)
    with pytest.raises(hs.InvalidOptionError, match=r"no option 'colour'\. Use one of segment_bytes"):
        hs.connect("memory://", colour="red")
    with pytest.raises(hs.InvalidOptionError, match="segment_bytes must be from 4096 to 2147483648, not 5"):
        hs.connect("memory://", segment_bytes=5)


def test_a_directory_that_is_no_log_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("mine")
    with pytest.raises(hs.NotALogError, match=r"contains 'x\.txt'"):
        hs.connect(tmp_path.as_uri())
    with pytest.raises(hs.StorageError, match="Not a directory"):
        hs.connect((tmp_path / "x.txt").as_uri())


def test_a_newer_log_is_refused(tmp_path: Path) -> None:
    (tmp_path / "headstream.json").write_text('{"format": 99, "identity": "x", "created_us": 1}')
    with pytest.raises(hs.LogVersionError, match="format 99"):
        hs.connect(tmp_path.as_uri())


def test_a_closed_log_refuses_everything() -> None:
    log = hs.connect("memory://")
    log.create_topic("shop/orders")
    consumer = log.consumer("shop/orders")
    log.close()
    log.close()
    for call in (
        log.streams, log.topics, lambda: log.topic("shop/orders"), lambda: log.create_stream("x"), lambda: log.delete_stream("x"),
        lambda: log.producer("shop/orders"), lambda: log.consumer("shop/orders"), lambda: log.poll("shop/orders"),
        lambda: log.offsets("shop/orders", "g"), lambda: log.identity, lambda: log.delete_topic("shop/orders"),
        lambda: log.stream("shop"), lambda: log.create_topic("a/b"),
    ):  # fmt: skip
        with pytest.raises(hs.ClosedError, match="the log is closed"):
            call()
    with pytest.raises(hs.ClosedError, match="the consumer is closed"):
        next(consumer)


@pytest.mark.parametrize("name", ["orders", "", "/orders", "shop/", "a.b/c"])
def test_topic_names_are_checked(name: str) -> None:
    with hs.connect("memory://") as log, pytest.raises(hs.InvalidInputError):
        log.create_topic(name)


def test_limits_are_checked() -> None:
    with (
        hs.connect("memory://") as log,
        pytest.raises(hs.InvalidOptionError, match=r"'huge' is not a valid value for limits .*iggy or wide"),
    ):
        log.create_topic("shop/orders", limits="huge")


def test_fsync_is_kept_and_checked() -> None:
    with hs.connect("memory://") as log:
        assert log.create_topic("shop/orders").fsync is hs.Fsync.INTERVAL
        assert log.create_topic("shop/payments", fsync="always").fsync is hs.Fsync.ALWAYS
        assert log.topic("shop/payments").fsync == "always"
        with pytest.raises(hs.InvalidOptionError, match=r"'often' is not an fsync policy .*always, interval, never"):
            log.create_topic("shop/carts", fsync="often")


@pytest.mark.parametrize("url", ["foo://u:p@ss/rest@host", "foo://u:p/rest@host", "iggy+foo://u:p@ss@re/st@host:1"])
def test_error_of_a_url_repeats_no_part_of_its_password(url: str) -> None:
    with pytest.raises(hs.InvalidUrlError) as caught:
        hs.connect(url)
    assert "ss" not in str(caught.value).replace("password", "")
    assert "st@" not in str(caught.value).replace("host", "")
    assert "...@host" in str(caught.value)
