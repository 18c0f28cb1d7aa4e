"""What only a server brings: it goes and comes back, it knows users, it encrypts; and nobody loses or doubles a message by it."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import headstream as hs
from headstream.server.network.tls import TlsFiles
from headstream.testing.local_server import LocalServer
from tests.support.server.certificates import write_certificate
from tests.support.server.server_process import ServerProcess


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LocalServer]:
    with LocalServer(tmp_path / "log") as server:
        yield server


@pytest.fixture(params=["tcp", "http"])
def url(request: pytest.FixtureRequest, server: LocalServer) -> str:
    return server.url if request.param == "tcp" else server.http_url


def restart_often(server: LocalServer, times: int, end: threading.Event) -> threading.Thread:
    def run() -> None:
        for _ in range(times):
            time.sleep(0.05)
            server.stop()
            server.start()
        end.set()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_nothing_is_lost_or_doubled_while_the_server_comes_and_goes(server: LocalServer, url: str) -> None:
    with hs.connect(url) as log:
        log.create_topic("shop/orders", partitions=2, deduplication_count=100_000)
        end, sent = threading.Event(), 0
        restarting = restart_often(server, 4, end)
        with log.producer("shop/orders", batch_count=20) as producer:
            while not end.is_set() or sent < 500:
                producer.send(b"%d" % sent, partition=1 + sent % 2)
                sent += 1
                if not sent % 50:
                    producer.flush()
        restarting.join()
        for partition in (1, 2):
            found = [int(message.payload or b"") for message in log.poll("shop/orders", partition, count=1_000_000)]
            assert found == list(range(partition - 1, sent, 2))


def test_a_consumer_goes_on_after_a_restart_and_its_member_joins_again(server: LocalServer, url: str) -> None:
    with hs.connect(url) as log:
        log.create_topic("shop/orders")
        with log.producer("shop/orders") as producer:
            for number in range(10):
                producer.send(b"%d" % number)
        with log.consumer("shop/orders", group="g", timeout_ms=60_000) as consumer:
            seen = [int(next(consumer).payload or b"") for _ in range(4)]
            server.stop()
            server.start()
            for message in consumer:
                seen.append(int(message.payload or b""))
                if message.payload == b"9":
                    break
        assert sorted(set(seen)) == list(range(10))
        assert log.offsets("shop/orders", "g") == {1: 10}


def test_members_are_told_apart_after_a_restart_and_none_repeats_what_another_has_committed(
    server: LocalServer, url: str
) -> None:
    with hs.connect(url) as log:
        log.create_topic("shop/orders", partitions=2)
        with log.producer("shop/orders", batch_count=10) as producer:
            for number in range(100):
                producer.send(b"%d" % number)
        with (
            log.consumer("shop/orders", group="g", timeout_ms=2000) as slow,
            log.consumer("shop/orders", group="g", timeout_ms=2000) as quick,
        ):
            assert {next(slow).partition, next(quick).partition} == {1, 2}
            server.stop()
            server.start()
            assert len({(message.partition, message.offset) for message in quick}) >= 99
            assert log.offsets("shop/orders", "g") == {1: 50, 2: 50}
            assert list(slow) == []
            assert len(log.group("shop/orders", "g").members) == 2


def test_a_waiting_consumer_gets_what_comes_after_a_restart(server: LocalServer, url: str) -> None:
    with hs.connect(url) as log, hs.connect(url) as other:
        log.create_topic("shop/orders")
        found: list[bytes | None] = []

        def wait() -> None:
            with log.consumer("shop/orders", name="n") as consumer:
                found.append(next(consumer).payload)

        waiting = threading.Thread(target=wait)
        waiting.start()
        time.sleep(0.1)
        server.stop()
        server.start()
        with other.producer("shop/orders") as producer:
            producer.send(b"after")
        waiting.join(60)
        assert found == [b"after"]


def test_a_server_that_does_not_come_back_is_an_error_in_time(server: LocalServer, url: str) -> None:
    with hs.connect(url + "?retry_timeout_ms=200") as log:
        server.stop()
        with pytest.raises(hs.ServerUnreachableError):
            log.topics()


def test_a_wait_is_ended_by_its_cancellation(url: str) -> None:
    async def main() -> float:
        async with hs.connect_async(url) as log:
            await log.create_topic("shop/orders")
            async with log.consumer("shop/orders") as consumer:
                task = asyncio.ensure_future(anext(aiter(consumer)))
                await asyncio.sleep(0.05)
                begin = time.monotonic()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                return time.monotonic() - begin

    assert asyncio.run(main()) < 5


def test_an_async_client_asks_the_server_too(url: str) -> None:
    async def main(log: hs.AsyncClient) -> None:
        async with log:
            assert [user.username for user in await log.server.users()] == ["iggy"]
            assert await log.server.ping() > 0
            assert (await log.server.stats()).streams_count == 0

    asyncio.run(main(hs.connect_async(url)))


def test_users_do_what_they_may_and_nothing_else(server: LocalServer, url: str) -> None:
    with hs.connect(url) as log:
        log.create_topic("shop/orders")
        with log.producer("shop/orders") as producer:
            producer.send(b"x")
        stream, topic = log.stream("shop").id, log.topic("shop/orders").id
        rights = hs.Permissions(
            streams={stream: hs.StreamPermissions(topics={topic: hs.TopicPermissions(read_topic=True, poll_messages=True)})}
        )
        ann = log.server.create_user("ann", "secret1", permissions=rights)
        assert ann.permissions == rights
        with pytest.raises(hs.AlreadyExistsError):
            log.server.create_user("ann", "secret1")
        hers = url.replace("iggy:iggy", "ann:secret1")
        with hs.connect(hers) as her_log:
            assert [message.payload for message in her_log.poll("shop/orders")] == [b"x"]
            with pytest.raises(hs.PermissionDeniedError):
                her_log.create_topic("shop/carts")
            with pytest.raises(hs.PermissionDeniedError):
                her_log.server.users()
            producer = her_log.producer("shop/orders")
            producer.send(b"y")
            with pytest.raises(hs.PermissionDeniedError):
                producer.flush()
        log.server.change_password("ann", "secret1", "secret2")
        with pytest.raises(hs.AuthenticationError, match="user 'ann' cannot log in"):
            hs.connect(hers)
        log.server.update_user("ann", is_active=False)
        with pytest.raises(hs.AuthenticationError):
            hs.connect(url.replace("iggy:iggy", "ann:secret2"))
        log.server.delete_user("ann")
        with pytest.raises(hs.NotFoundError, match="no user 'ann'"):
            log.server.user("ann")


def test_a_token_logs_in_in_place_of_a_password(url: str) -> None:
    with hs.connect(url) as log:
        token = log.server.create_token("nightly", expires_in_us=3_600_000_000)
        assert [found.name for found in log.server.tokens()] == ["nightly"]
        with hs.connect(url.replace("iggy:iggy", f":{token}")) as program:
            program.create_topic("shop/orders")  # one of our own commands: who came by a token is known as one of us
        log.server.delete_token("nightly")
        with pytest.raises(hs.AuthenticationError, match="a token cannot log in") as caught:
            hs.connect(url.replace("iggy:iggy", f":{token}"))
        assert token not in str(caught.value)


def test_connections_are_shown_over_tcp_and_requests_over_http_are_none(server: LocalServer) -> None:
    with hs.connect(server.url) as log, hs.connect(server.http_url) as other:
        assert log.server.me().address in {client.address for client in other.server.clients()}
        assert log.server.client(log.server.me().client_id).user_id == 1
        with pytest.raises(hs.NotFoundError, match="no client 7"):
            log.server.client(7)
        with pytest.raises(hs.InvalidInputError, match="HTTP has no route for me"):
            other.server.me()
        assert log.server.snapshot()[:2] == b"PK"
        assert other.server.snapshot()[:2] == b"PK"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    """A certificate of `mq.example` that signs itself, and its key."""
    return write_certificate(tmp_path_factory.mktemp("tls"), "mq.example")


def test_tls_encrypts_and_checks_whose_certificate_it_is(certificate: TlsFiles) -> None:
    trusted = {"tls_ca_file": str(certificate.certificate), "tls_domain": "mq.example"}
    with LocalServer(tls=certificate) as server:
        for url in (server.url, server.http_url):
            with hs.connect(url, **trusted) as log:
                log.create_topic("shop/orders", if_not_exists=True)
                with log.producer("shop/orders") as producer:
                    producer.send(bytes(300_000))
                assert {len(message.payload or b"") for message in log.poll("shop/orders")} == {300_000}
            with pytest.raises(hs.ServerUnreachableError, match="certificate is not trusted"):
                hs.connect(url)
            with pytest.raises(hs.ServerUnreachableError, match="certificate is not trusted"):
                hs.connect(url, **{**trusted, "tls_domain": "other.example"})
        with pytest.raises(hs.InvalidOptionError, match="cannot load tls_ca_file"):
            hs.connect(server.url, tls_ca_file="/nowhere.pem")


def test_a_url_that_says_plain_where_tls_is_spoken_or_the_reverse_is_told_as_that(
    certificate: TlsFiles, server: LocalServer
) -> None:
    quick = {"retry_timeout_ms": 0, "connect_timeout_ms": 10_000}
    with LocalServer(tls=certificate) as encrypted:
        with pytest.raises(hs.ServerUnreachableError, match=r"the port requires TLS.*Add tls=true"):
            hs.connect(encrypted.url.replace("?tls=true", ""), **quick)
        with pytest.raises(hs.ServerUnreachableError, match=r"the port requires TLS.*Begin the URL with https://"):
            hs.connect(encrypted.http_url.replace("https:", "http:"), **quick)
    with pytest.raises(hs.ServerUnreachableError, match=r"the port does not support TLS.*Omit tls=true"):
        hs.connect(server.url, tls=True, **quick)
    with pytest.raises(hs.ServerUnreachableError, match=r"the port does not support TLS.*Begin the URL with http://"):
        hs.connect(server.http_url.replace("http:", "https:"), **quick)


def test_a_forked_child_speaks_over_connections_of_its_own(server: LocalServer) -> None:
    import os

    with hs.connect(server.url) as log:
        log.create_topic("shop/orders")
        child = os.fork()
        if not child:
            code = 1
            try:
                code = 0 if [topic.name for topic in log.topics()] == ["orders"] else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert [topic.name for topic in log.topics()] == ["orders"]


def test_a_local_server_names_the_extra_when_a_library_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bcrypt", None)
    with pytest.raises(hs.MissingExtraError, match=r"bcrypt is not installed.*headstream\[server\]"):
        LocalServer().start()


def test_a_message_of_the_largest_size_is_sent_and_polled(url: str) -> None:
    payload = bytes((64 << 20) - 24)  # with its 24 bytes of id and lengths, as much as one send takes
    with hs.connect(url) as log:
        log.create_topic("shop/films", limits="wide")
        with log.producer("shop/films", batch_bytes=64 << 20) as producer:
            producer.send(payload)
        assert [message.payload == payload for message in log.poll("shop/films")] == [True]


@pytest.mark.parametrize("scheme", ["headstream", "http"])
def test_a_request_that_is_longer_than_the_server_takes_is_told_as_that(scheme: str, tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "log", environ={"HEADSTREAM_MAX_FRAME_SIZE": "1 MiB"}) as server:
        host, port = server.tcp if scheme == "headstream" else server.http
        with hs.connect(f"{scheme}://iggy:iggy@{host}:{port}") as log:
            log.create_topic("shop/films", limits="wide")
            for size in (2 << 20, 30 << 20):
                producer = log.producer("shop/films", batch_bytes=64 << 20)
                producer.send(bytes(size))
                with pytest.raises(hs.LimitError, match=r"raise (the server's )?headstream\.max_frame_size"):
                    producer.flush()
            assert log.topic("shop/films").messages_count == 0
