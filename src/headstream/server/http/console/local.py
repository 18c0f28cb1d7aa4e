"""LocalConsole: serves the console for any log from this process to browsers on this machine.

GET /console/ and its files       for every user of this machine; the files contain no data of the log
POST .../login {"token": ...}     once, with the token in the printed address -> a cookie
all other routes                  with the cookie: views and commands
"""

from __future__ import annotations

import asyncio
import functools
import secrets
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

from headstream.core.codec.json_text import decode_json
from headstream.core.wire.codes import Code
from headstream.core.wire.command_classes import COMMANDS
from headstream.core.wire.records import NOTHING, Command
from headstream.core.wire.route_matching import FoundRoute, find_route
from headstream.errors import DecodeError
from headstream.server.http.console.cookies import ConsoleCookie
from headstream.server.http.console.files import CONSOLE_PATH, ConsoleFiles
from headstream.server.http.hosts import Hosts
from headstream.server.http.pipeline_reports import NO_PIPELINES, PipelineReports
from headstream.server.http.replies import (
    NOT_FOUND,
    OWN_HEADERS,
    UNAUTHORIZED,
    Reply,
    command_reply,
    json_reply,
    misspelled_reply,
    refused_reply,
)
from headstream.server.http.requests import RefusedBodyError, bounded_for_json, read_body, read_query
from headstream.server.http.views import Views

if TYPE_CHECKING:
    from headstream.client.client import Client

_HOST: Final = "127.0.0.1"
_LOGIN_PATH: Final = "/personal-access-tokens/login"
_SESSION_PATH: Final = "/console/session"
_BODY_BYTES: Final = 2_000_000
_BODY_S: Final = 30.0
_LIFETIME_S: Final = 30 * 86_400
_OWN: Final = frozenset({Code.LOGIN, Code.LOGIN_WITH_TOKEN, Code.LOGOUT, Code.LIST_TOKENS, Code.CREATE_TOKEN, Code.DELETE_TOKEN})
"""Login commands, which are not executed, because the log is opened with the credentials of the console's user."""


class LocalConsole:
    """Serves the console; used in one event loop.

    Args:
        log: A client without interceptors, which the caller closes.
        place: Name of the log for the console, without credentials.
        user_id: The user of the log's server, by id or name; 0 if there is no server.
    """

    def __init__(
        self,
        answer: Callable[[Command[Any]], Any],
        log: Client,
        place: str,
        user_id: int | str = 0,
        pipelines: PipelineReports = NO_PIPELINES,
    ) -> None:
        self._ask = answer
        self._log = log
        self._place = place
        self._user_id = user_id
        self._files = ConsoleFiles()
        self._views = Views(pipelines=pipelines)
        self._hosts = Hosts(_HOST)
        self._one_time_token: str | None = secrets.token_urlsafe(24)
        self._session = secrets.token_urlsafe(32)
        self._cookie: ConsoleCookie | None = None
        self._server: asyncio.Server | None = None
        self._requests: web.Server | None = None

    async def start(self, port: int = 0) -> str:
        """Start serving on a port of 127.0.0.1 (0: any free port); return a URL with which a browser can log in once."""
        self._requests = web.Server(self._handle, access_log=None)  # disables the access log
        self._server = await asyncio.get_running_loop().create_server(self._requests, _HOST, port)
        bound = self._server.sockets[0].getsockname()[1]
        self._cookie = ConsoleCookie(bound, is_secure=False)
        return f"http://{_HOST}:{bound}{CONSOLE_PATH}/#token={self._one_time_token}"

    async def stop(self) -> None:
        """Stop serving; idempotent."""
        server, requests, self._server, self._requests = self._server, self._requests, None, None
        if server is not None and requests is not None:
            server.close()
            await requests.shutdown(1)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            reply = self._hosts.refuse(request) or await self._answer(request)
        except RefusedBodyError as refused:
            reply = refused.reply
        except DecodeError as error:
            reply = misspelled_reply(error)
        except Exception as error:
            reply = refused_reply(error)
        headers = {**OWN_HEADERS, **reply.headers}
        if reply.content_type is not None:
            headers["Content-Type"] = reply.content_type
        return web.Response(status=reply.http_status, body=reply.body or None, headers=headers)

    async def _answer(self, request: web.BaseRequest) -> Reply:
        assert self._cookie is not None  # start() has set it
        method, path = request.method, request.rel_url.raw_path
        file = self._files.find(method, path, request.headers.get("accept-encoding", ""))
        if file is not None and path != _SESSION_PATH:
            return file
        if (method, path) == ("POST", _LOGIN_PATH):
            return await self._enter(request)
        given = self._cookie.read(request.headers)
        if given is None or not secrets.compare_digest(given.encode(), self._session.encode()):
            return UNAUTHORIZED
        found = find_route(method, path)
        if found is not None:
            if found.entry.code == Code.LOGOUT:
                return Reply(204, headers=self._cookie.remove())
            return await self._answer_command(request, found)
        view = self._views.find(method, path)
        if view is None:
            return NOT_FOUND
        query = read_query(request.rel_url.raw_query_string)
        body = await read_body(request, _BODY_BYTES, _BODY_S, _hold) if method == "POST" else b""
        answer = self._views.answering(view, self._ask, self._user_id, query, body, lambda: nullcontext(self._log))
        reply = await asyncio.to_thread(answer)
        return json_reply({**decode_json(reply.body), "place": self._place}) if path == _SESSION_PATH else reply

    async def _enter(self, request: web.BaseRequest) -> Reply:
        """Answer a login; the token of the printed URL is accepted once."""
        assert self._cookie is not None
        document = decode_json(await read_body(request, _BODY_BYTES, _BODY_S, _hold))
        token = document.get("token") if isinstance(document, dict) else None
        expected = self._one_time_token
        is_known = isinstance(token, str) and expected is not None and secrets.compare_digest(token.encode(), expected.encode())
        if not is_known or not self._cookie.is_from_console(request.headers):
            return UNAUTHORIZED
        self._one_time_token = None
        return json_reply({})._replace(headers=self._cookie.issue(self._session, _LIFETIME_S))

    async def _answer_command(self, request: web.BaseRequest, found: FoundRoute) -> Reply:
        if found.entry.code in _OWN:
            return NOT_FOUND
        kind = COMMANDS[found.entry.code]
        body = await read_body(request, _BODY_BYTES, _BODY_S, _hold) if request.method in ("POST", "PUT") else b""
        command: Command[Any] = kind.decode_http(found.path, read_query(request.rel_url.raw_query_string), body)
        command.validate()
        value = await asyncio.to_thread(functools.partial(self._ask, bounded_for_json(command)))
        return NOT_FOUND if value is None and kind.reply is not NOTHING else command_reply(command, value)


async def _hold(_: int) -> None:
    """Reserve no memory, because there is only one client."""
