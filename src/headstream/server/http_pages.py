"""What HTTP has besides commands: the root, health, metrics, the description of the interface, and new tokens for old ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cached_property
from typing import Final, NamedTuple, TypeAlias

from headstream.broker.commands.dispatch import Dispatcher
from headstream.broker.commands.system import measure
from headstream.broker.kept_value import KeptValue
from headstream.broker.traffic import Traffic
from headstream.codec.json_text import decode_json
from headstream.errors import DecodeError, HeadstreamError, NotFoundError
from headstream.model.identifiers import TopicName
from headstream.server.http_replies import Reply, json_reply, misspelled_reply, refused_reply, text_reply
from headstream.server.http_settings import HttpSettings
from headstream.server.http_tokens import AccessTokens
from headstream.wire.codes import Method
from headstream.wire.commands.sessions import LoggedIn
from headstream.wire.commands.tokens import LoginWithToken, RawToken
from headstream.wire.records import Record

__all__ = ["Page", "PageRoute", "Pages"]

Page: TypeAlias = Callable[[bytes], Reply]
"""Answers a request by its body, on a worker thread; nobody needs a token for it."""

_JSON: Final = "application/json"
_METRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_REFRESH: Final = "/users/refresh-token"
_ROOT: Final = "Iggy API"
"""What tools for the protocol's original look for."""


class PageRoute(NamedTuple):
    """What HTTP has besides commands.

    Args:
        method: GET or POST.
        path: Its path.
        about: What it is, a sentence.
        content_type: What it answers.
        body: What the body spells; None for no body.
        reply: What the reply spells; None where it is not JSON of a record.
    """

    method: Method
    path: str
    about: str
    content_type: str
    body: type[Record] | None = None
    reply: type[Record] | None = None


class Pages:
    """What HTTP has besides commands; any thread.

    Args:
        dispatcher: What answers commands.
        settings: What is decided for HTTP.
        tokens: Makes access tokens and checks them.
        traffic: What each transport has done.
    """

    def __init__(self, dispatcher: Dispatcher, settings: HttpSettings, tokens: AccessTokens, traffic: list[Traffic]) -> None:
        self._dispatcher = dispatcher
        self._log = dispatcher.broker.backing.log
        self._tokens = tokens
        self._traffic = traffic
        self._tells_groups = settings.metrics_of_groups
        self._metrics = KeptValue[bytes]()
        pages: dict[PageRoute, Page] = {
            PageRoute("GET", "/", "Tell what answers here.", "text/plain"): lambda _: text_reply(200, _ROOT),
            PageRoute("GET", "/health", "Tell whether requests are taken.", _JSON): lambda _: json_reply({"status": "ready"}),
            PageRoute("GET", "/openapi.json", "Return this description.", _JSON): lambda _: self._description,
            PageRoute("POST", _REFRESH, "Return a new token for one that is good.", _JSON, RawToken, LoggedIn): self._refresh,
        }
        if settings.metrics_path is not None:
            pages[PageRoute("GET", settings.metrics_path, "Return the metrics.", _METRICS)] = self._measure
        self._routes = tuple(pages)
        self._pages: dict[tuple[str, str], Page] = {(route.method, route.path): page for route, page in pages.items()}

    def show(self, traffic: Traffic) -> None:
        """Have the metrics show what another transport has done."""
        self._traffic = [*self._traffic, traffic]

    def find(self, method: str, path: str) -> Page | None:
        """Return the page of a method and a path, or None."""
        return self._pages.get((method, path))

    def find_methods(self, path: str) -> list[str]:
        """Return the methods that a path takes, none where there is no page."""
        return [method for method, known in self._pages if known == path]

    @cached_property
    def _description(self) -> Reply:
        from headstream.server.openapi import describe  # what few ask for does not hold up the start

        return json_reply(describe(self._routes))

    def _refresh(self, body: bytes) -> Reply:
        """Return a new token for one that is still good, which is good no more."""
        try:
            token = RawToken.read(decode_json(body), "body").token
        except DecodeError as error:
            return misspelled_reply(error, self._log)
        try:
            claims = self._tokens.verify(token)
            self._tokens.revoke(claims)
        except HeadstreamError as error:
            return refused_reply(error, self._log)
        return json_reply(
            LoginWithToken.reply_to_json(LoggedIn(claims.user_id, self._tokens.issue(claims.user_id, claims.generation)))
        )

    def _measure(self, _: bytes) -> Reply:
        return Reply(200, self._metrics.get(self._expose), _METRICS)

    def _expose(self) -> bytes:
        from headstream.server.metrics import expose

        stats = measure(self._dispatcher)
        groups = self._groups_behind() if self._tells_groups else ()
        users = len(self._dispatcher.users.list())
        return expose(self._traffic, stats, users, groups)

    def _groups_behind(self) -> Iterator[tuple[str, str, str, int]]:
        broker = self._dispatcher.broker
        for stream in broker.streams.list():
            for topic in stream.topics:
                with suppress(NotFoundError):  # deleted just now
                    for group in broker.groups.list(TopicName(stream.name, topic)):
                        yield stream.name, topic, group.name, group.lag
