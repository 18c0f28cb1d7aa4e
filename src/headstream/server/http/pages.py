"""HTTP routes other than commands: root, health, metrics, OpenAPI description, token refresh."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeAlias

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from headstream.broker.cached_value import CachedValue
from headstream.broker.commands.dispatch import Dispatcher
from headstream.broker.commands.system import measure
from headstream.core.codec.json_text import decode_json
from headstream.core.model.identifiers import TopicName
from headstream.core.wire.commands.sessions import LoggedIn
from headstream.core.wire.commands.tokens import LoginWithToken, RawToken
from headstream.errors import DecodeError, HeadstreamError, NotFoundError
from headstream.log.catalog.catalog import find_topic
from headstream.log.catalog.state_records import count_marks
from headstream.log.log import Log
from headstream.server.config.http_settings import HttpSettings
from headstream.server.http.hosts import HEALTH_PATH
from headstream.server.http.replies import Reply, json_reply, misspelled_reply, refused_reply, text_reply
from headstream.server.http.routes import PageRoute
from headstream.server.http.tokens import AccessTokens
from headstream.server.iggy.fast_path.traffic import Traffic
from headstream.server.resources.memory_budget import MemoryBudget

if TYPE_CHECKING:
    from prometheus_client.core import Metric

__all__ = ["Page", "PageRoute", "Pages", "describe_removals"]


# Metrics of messages that are marked for deletion: number, age of the oldest mark, and removed messages.


def describe_removals(log: Log, now_us: int) -> Iterator[Metric]:
    """Yield the metrics of removals."""
    catalog, topics = log.catalog(), log.snapshot()
    marked = held = 0
    oldest_us = now_us
    for number, count, marked_us in () if catalog is None else count_marks(catalog):
        topic = find_topic(topics, number)
        if topic is not None and topic.options.legal_hold:
            held += count
        elif topic is not None:
            marked, oldest_us = marked + count, min(oldest_us, marked_us)
    removed = log.upkeep.removed
    for name, text, total in (
        ("messages", "Messages marked for deletion that were removed from the disk.", removed.removed_count),
        ("bytes", "Bytes freed in segments by removing messages marked for deletion.", removed.removed_bytes),
    ):
        yield CounterMetricFamily(f"headstream_removed_{name}", text, value=total)
    for name, text, value in (
        ("marked_messages", "Messages marked for deletion that are still on the disk, in topics without legal hold.", marked),
        ("held_messages", "Messages marked for deletion that a legal hold keeps.", held),
        ("oldest_mark_seconds", "Age of the oldest deletion mark in topics without legal hold.", (now_us - oldest_us) / 1e6),
    ):
        yield GaugeMetricFamily(f"headstream_{name}", text, value=value)


Page: TypeAlias = Callable[[bytes], Reply]
"""Answers a request, given by its body, on a worker thread; no token is required."""

_JSON: Final = "application/json"
_METRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_REFRESH: Final = "/users/refresh-token"
_ROOT: Final = "Iggy API"
"""The response that tools for Iggy's server expect."""


class Pages:
    """Answers the HTTP routes other than commands; thread-safe."""

    def __init__(
        self, dispatcher: Dispatcher, settings: HttpSettings, tokens: AccessTokens, traffic: list[Traffic], budget: MemoryBudget
    ) -> None:
        self._dispatcher = dispatcher
        self._log = dispatcher.broker.backing.log
        self._tokens = tokens
        self._traffic = traffic
        self._budget = budget
        self._names_groups = settings.metrics_of_groups
        self._metrics = CachedValue[bytes]()
        pages: dict[PageRoute, Page] = {
            PageRoute("GET", "/", "Return the name of the API.", "text/plain"): lambda _: text_reply(200, _ROOT),
            PageRoute("GET", HEALTH_PATH, "Return whether the server accepts requests.", _JSON): lambda _: json_reply(
                {"status": "ready"}
            ),
            PageRoute("GET", "/openapi.json", "Return this description.", _JSON): lambda _: self._description,
            PageRoute("POST", _REFRESH, "Exchange a valid token for a new token.", _JSON, RawToken, LoggedIn): self._refresh,
        }
        if settings.metrics_path is not None:
            pages[PageRoute("GET", settings.metrics_path, "Return the metrics.", _METRICS)] = self._measure
        self._routes = tuple(pages)
        self._pages: dict[tuple[str, str], Page] = {(route.method, route.path): page for route, page in pages.items()}

    def show(self, traffic: Traffic) -> None:
        """Add another transport's counters to the metrics."""
        self._traffic = [*self._traffic, traffic]

    def find(self, method: str, path: str) -> Page | None:
        """Return the page for a method and a path, or None."""
        return self._pages.get((method, path))

    def find_methods(self, path: str) -> list[str]:
        """Return the methods that a path accepts; empty if the path is unknown."""
        return [method for method, known in self._pages if known == path]

    @cached_property
    def _description(self) -> Reply:
        from headstream.server.http.openapi import describe  # rarely requested, so not imported at the start

        return json_reply(describe(self._routes))

    def _refresh(self, body: bytes) -> Reply:
        """Return a new token in exchange for a valid token, and revoke the old token."""
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
            LoginWithToken.reply_to_json(
                LoggedIn(claims.user_id, self._tokens.issue(claims.user_id, claims.generation, is_today=claims.is_today))
            )
        )

    def _measure(self, _: bytes) -> Reply:
        return Reply(200, self._metrics.get(self._expose), _METRICS)

    def _expose(self) -> bytes:
        from headstream.metrics.families import write_openmetrics

        return write_openmetrics(self.describe_metrics()).encode()

    def describe_metrics(self) -> list[Metric]:
        """Return all metrics of the server; thread-safe."""
        from headstream.server.http.metrics import describe_deliveries, describe_server

        broker, audit = self._dispatcher.broker, self._dispatcher.audit
        now_us = broker.backing.clock_us()
        groups = self._groups_behind() if self._names_groups else ()
        filters = broker.messages.filter_counts
        users = len(self._dispatcher.users.list())
        deliveries = describe_deliveries(
            broker.transitions.counts,
            broker.transitions.state_counts,
            broker.delivery_views.ages(),
            now_us,
            lost_rows=0 if audit is None else audit.lost_count,
            names_groups=self._names_groups,
        )
        own = describe_server(self._traffic, measure(self._dispatcher), users, groups, filters, self._budget)
        return [*own, *deliveries, *describe_removals(broker.backing.log, now_us)]

    def _groups_behind(self) -> Iterator[tuple[str, str, str, int]]:
        broker = self._dispatcher.broker
        for stream in broker.streams.list():
            for topic in stream.topics:
                with suppress(NotFoundError):  # deleted just now
                    for group in broker.groups.list(TopicName(stream.name, topic)):
                        yield stream.name, topic, group.name, group.lag
