"""An S3 server in a process of its own (moto), with faults that a test switches on: refused requests and lost answers.

It is a process because some calls of deltalake keep the interpreter's lock while they wait for the store.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any

from headstream.replicate.storage.places import StorePlace
from headstream.replicate.storage.storage_settings import StorageSettings
from headstream.replicate.storage.store_files import StoreFiles

BUCKET = "lake"
ACCESS_KEY = "AKIAHEADSTREAMTEST"
SECRET_KEY = "very/secret+key"
_CONTROL = "/_control"
_REFUSAL = b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>"


class S3Server:
    """A running server with one bucket; what it stores ends with it."""

    def __init__(self) -> None:
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.replicate.s3_server"], stdout=subprocess.PIPE, env=environment, text=True
        )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        assert self.url, "the server has not started"

    def __enter__(self) -> S3Server:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def settings(self, **changes: Any) -> StorageSettings:
        """The settings of the store."""
        given: dict[str, Any] = {"endpoint": self.url, "access_key_id": ACCESS_KEY, "secret_access_key": SECRET_KEY}
        return StorageSettings(**(given | changes))

    def place(self, key: str, **changes: Any) -> StorePlace:
        """A place in the bucket."""
        return StorePlace(BUCKET, key, self.settings(**changes))

    @property
    def variables(self) -> dict[str, str]:
        """The settings as variables of the environment."""
        return {"AWS_ENDPOINT_URL": self.url, "AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}

    def break_down(
        self,
        *,
        refused: float = 0,
        lost: float = 0,
        of: str = "",
        seed: int = 0,
        ignores_conditions: bool = False,
        delay_s: float = 0,
    ) -> None:
        """Let requests fail from now on.

        Args:
            refused: The share that is answered with 503 and not carried out.
            lost: The share of writes that are carried out and answered with 503.
            of: The part of a path that those writes have.
            seed: Of the choice.
            ignores_conditions: Whether `If-None-Match` has no effect, as in some servers.
            delay_s: How long each request waits before it is carried out, like one over a network.
        """
        choice = {"refused": refused, "lost": lost, "of": of, "seed": seed}
        self._control(choice | {"ignores_conditions": ignores_conditions, "delay": delay_s})

    def lose_answer(self, path: str, write: Callable[[], object]) -> None:
        """Write while the answers to requests for a path are lost, until one is sent again."""
        self.break_down(lost=1, of=path)
        with ThreadPoolExecutor(1) as threads:
            threads.submit(self._recover_after_two_tries, path)
            write()

    def _recover_after_two_tries(self, path: str) -> None:
        tries, until = 0, time.monotonic() + 120
        while tries < 2 and time.monotonic() < until:
            tries += sum(method == "PUT" and path in requested for method, requested in self.requests())
            time.sleep(0.01)
        self.recover()

    def plan_outage(self, seconds: float, begins_with: str) -> None:
        """Let all requests be refused for a time, once.

        Args:
            seconds: The time.
            begins_with: The part of a path with whose next write it begins.
        """
        self._control({"outage": seconds, "begins_with": begins_with})

    def refused_count(self) -> int:
        """Return how many requests have been refused since faults were last switched on or off."""
        return int(self._control("refused"))

    def recover(self) -> None:
        """Let no request fail any more."""
        self.break_down()

    def requests(self) -> list[tuple[str, str]]:
        """Return the method and path of the requests since the last call."""
        return [(method, path) for method, path in self._control(None)]

    def _control(self, document: Any) -> Any:
        request = urllib.request.Request(self.url + _CONTROL, data=json.dumps(document).encode(), method="POST")
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read())


def find_keys(place: StorePlace) -> list[str]:
    """Return the keys of all objects below a place, counted from it."""
    return StoreFiles(place).names()


class _Faults:
    """A WSGI application around the server's, which refuses requests, loses answers, and counts."""

    _outage_s: float
    _begins_with: str
    _refused_count: int

    def __init__(self, inner: Callable[..., Iterable[bytes]]) -> None:
        self._inner = inner
        self._lock = threading.Lock()
        self._requests: list[tuple[str, str]] = []
        self._set({})

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        if path == _CONTROL:
            return self._control(environ, start)
        with self._lock:
            self._requests.append((method, path))
            is_refused, is_lost = self._choice.random() < self._refused, self._choice.random() < self._lost
            if self._outage_s and method == "PUT" and self._begins_with in path:
                self._outage_ends = time.monotonic() + self._outage_s
                self._outage_s = 0
            is_refused = is_refused or time.monotonic() < self._outage_ends
            self._refused_count += is_refused
        time.sleep(self._delay_s)
        if is_refused:
            return _refuse(start)
        if self._ignores_conditions:
            environ.pop("HTTP_IF_NONE_MATCH", None)
        if is_lost and method != "GET" and self._of in path:
            for _ in self._inner(environ, lambda *_: None):
                pass
            return _refuse(start)
        return self._inner(environ, start)

    def _control(self, environ: Mapping[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        document = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
        answer: Any
        with self._lock:
            if document == "refused":
                answer = self._refused_count
            else:
                answer, self._requests = self._requests, []
            if isinstance(document, dict):
                self._set(document)
        start("200 OK", [("Content-Type", "application/json")])
        return [json.dumps(answer).encode()]

    def _set(self, document: Mapping[str, Any]) -> None:
        self._refused, self._lost = document.get("refused", 0), document.get("lost", 0)
        self._of = document.get("of", "")
        self._ignores_conditions = document.get("ignores_conditions", False)
        self._choice = random.Random(document.get("seed", 0))
        self._outage_s = document.get("outage", 0)
        self._begins_with = document.get("begins_with", "")
        self._outage_ends = 0.0
        self._refused_count = 0
        self._delay_s = document.get("delay", 0)


def _refuse(start: Callable[..., Any]) -> Iterable[bytes]:
    start("503 Slow Down", [("Content-Type", "application/xml"), ("Content-Length", str(len(_REFUSAL)))])
    return [_REFUSAL]


def main() -> None:
    """Serve until killed; the first line printed is the URL."""
    import logging

    import boto3
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = make_server("127.0.0.1", 0, _Faults(DomainDispatcherApplication(create_backend_app)), threaded=True)
    url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    options = {"endpoint_url": url, "region_name": "us-east-1"}
    client = boto3.client("s3", aws_access_key_id=ACCESS_KEY, aws_secret_access_key=SECRET_KEY, **options)
    client.create_bucket(Bucket=BUCKET)
    print(url, flush=True)  # noqa: T201
    threading.Event().wait()


if __name__ == "__main__":
    main()
