"""HTTP routes other than commands: the route of a page (pages.py), and the arguments of a view's function (views.py)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from headstream.core.wire.codes import Method
from headstream.core.wire.commands.system import ListClients
from headstream.core.wire.records import Record
from headstream.server.http.own_client import Ask
from headstream.server.http.pipeline_reports import NO_PIPELINES, PipelineReports
from headstream.server.iggy.fast_path.traffic import Traffic

if TYPE_CHECKING:
    from headstream.client.client import Client

OpenClient: TypeAlias = Callable[[], AbstractContextManager["Client"]]
"""Returns a context with a client that runs its commands with the rights of the user."""


class ViewRequest(NamedTuple):
    """A request for a view.

    Args:
        ask: Runs a command with the rights of the user.
        user_id: The user, by id or name.
        open_client: Returns a context with a client of the user.
    """

    ask: Ask
    user_id: int | str
    path: Mapping[str, str]
    query: Mapping[str, str]
    body: Mapping[str, Any]
    open_client: OpenClient
    traffic: Sequence[Traffic] = ()
    pipelines: PipelineReports = NO_PIPELINES

    def check_server_right(self) -> None:
        """Raise PermissionDeniedError if pipelines require the right to read the server and the user does not have this right."""
        if self.pipelines.needs_right:
            self.ask(ListClients())  # refused without the right to read the server; GetStats is allowed to everybody


class PageRoute(NamedTuple):
    """An HTTP route other than a command.

    Args:
        method: GET or POST.
        about: Description of the route, one sentence.
        body: Record type of the request's body; None if there is no body.
        reply: Record type of the reply; None if the reply is not the JSON of a record.
    """

    method: Method
    path: str
    about: str
    content_type: str
    body: type[Record] | None = None
    reply: type[Record] | None = None
