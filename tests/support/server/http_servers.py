"""A server over HTTP for tests, on a free port and with its event loop in a thread of its own, and calls to it."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from headstream.broker.broker import Broker
from headstream.broker.commands.dispatch import Dispatcher
from headstream.broker.commands.table import make_dispatcher
from headstream.broker.settings import ServerSettings
from headstream.log.opening import open_memory
from headstream.server.config.http_settings import HttpSettings, TokenSettings
from headstream.server.http.pipeline_reports import NO_PIPELINES, PipelineReports
from headstream.server.http.server import HttpServer
from headstream.server.http.tokens import AccessTokens
from headstream.server.iggy.fast_path.traffic import Traffic
from headstream.server.network.admission import Admission
from headstream.server.resources.memory_budget import MemoryBudget
from headstream.server.resources.workers import Workers

SECRET = b"a secret of tests, long enough for HS256, HS384 and for HS512 too"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def refusal(self) -> tuple[int, int]:
        """The status of HTTP, and ours."""
        return self.status, self.json["id"]


@dataclass
class Http:
    host: str
    port: int
    dispatcher: Dispatcher
    tokens: AccessTokens
    server: HttpServer
    loop: asyncio.AbstractEventLoop
    traffic: Traffic
    token: str | None = field(default=None, repr=False)

    def call(
        self, method: str, path: str, body: Any = None, *, token: str | None = "", headers: Mapping[str, str] = {}
    ) -> Answer:
        """Ask for something; a body that is not bytes is sent as JSON. The token is root's unless another is given, or None."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        sent = {} if data is None else {"Content-Type": "application/json"}
        shown = self.token if token == "" else token
        if shown is not None:
            sent["Authorization"] = f"Bearer {shown}"
        connection = http.client.HTTPConnection(self.host, self.port, timeout=30)
        try:
            connection.request(method, path, data, {**sent, **headers})
            response = connection.getresponse()
            return Answer(response.status, dict(response.getheaders()), response.read())
        finally:
            connection.close()

    def log_in(self, username: str, password: str) -> Answer:
        return self.call("POST", "/users/login", {"username": username, "password": password}, token=None)

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self.server.stop(), self.loop).result(30)


@contextmanager
def serving(
    settings: HttpSettings | None = None,
    tokens: TokenSettings | None = None,
    make_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop,
    pipelines: PipelineReports = NO_PIPELINES,
    segment_bytes: int | None = None,
    clock_us: Callable[[], int] = lambda: time.time_ns() // 1000,
) -> Iterator[Http]:
    """Lend a server over an empty log in memory, with root logged in."""
    broker = Broker(open_memory(None, segment_bytes), clock_us=clock_us)
    dispatcher = make_dispatcher(broker, ServerSettings(password_rounds=4, most_tokens=10_000))
    access = AccessTokens(tokens or TokenSettings(secret=SECRET), dispatcher.tokens, dispatcher.users)
    workers, traffic = Workers(), Traffic("http")
    budget, admission = MemoryBudget(1 << 30), Admission()
    server = HttpServer(dispatcher, settings or HttpSettings(), access, workers, [traffic], budget, admission, pipelines)
    loop = make_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        host, port = asyncio.run_coroutine_threadsafe(server.start("127.0.0.1", 0), loop).result(30)
        client = Http(host, port, dispatcher, access, server, loop, traffic)
        client.token = client.log_in("iggy", "iggy").json["access_token"]["token"]
        try:
            yield client
        finally:
            client.stop()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
        workers.close()
        broker.close()


def make_topic(http: Http) -> None:
    """Make topic t of stream s, with one partition."""
    settings = {"partitions_count": 1, "compression_algorithm": "none", "message_expiry": 0, "max_topic_size": 0}
    assert http.call("POST", "/streams", {"name": "s"}).status == 200
    assert http.call("POST", "/streams/s/topics", {"name": "t", **settings}).status == 200
