"""Generates the OpenAPI 3.1 description of the HTTP interface from the tables for serving requests: commands, shapes, pages."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from headstream.core.wire.codes import TABLE, Code, CodeEntry, Route
from headstream.core.wire.command_classes import COMMANDS
from headstream.core.wire.fields import RecordField, fields_of
from headstream.core.wire.records import BINARY, NOTHING, Command
from headstream.core.wire.schemas import Schema, Schemas
from headstream.core.wire.statuses import Status
from headstream.server.http.routes import PageRoute
from headstream.server.http.views import VIEWS, View
from headstream.version import __version__

_ABOUT: Final = (
    "The HTTP API of a Headstream server. Log in at /users/login and send the token with every request that "
    "is not public. Numbers in a path are ids."
)
_REFUSALS: Final = {
    "400": ("The request was refused, or its path, query or JSON is invalid (the response is then plain text).", "both"),
    "401": ("The token is missing or invalid (empty body), or the login was rejected (body as for 400).", "none"),
    "403": ("The user does not have the required permission.", "json"),
    "404": ("The name or number does not exist.", "json"),
    "408": ("The body did not arrive in time.", "text"),
    "413": ("The body is too long.", "text"),
    "415": ("The content-type of the body is not supported.", "text"),
    "422": ("A member of the body is missing or invalid.", "text"),
    "500": ("Internal error: see the server's log.", "json"),
}
_NAMES: Final = re.compile(r"\{(\w+)\}")
_WITH_BODY: Final = ("408", "413", "415", "422")
_IN_BINARY: Final = {
    BINARY: {"schema": {"type": "string", "format": "binary", "description": "The payload of a TCP frame, without its header."}}
}


def describe(pages: Iterable[PageRoute]) -> dict[str, Any]:
    """Return the description; `pages` are the HTTP routes other than commands."""
    schemas = Schemas()
    paths: dict[str, dict[str, Any]] = {}
    for page in pages:
        paths.setdefault(page.path, {})[page.method.lower()] = _page(page, schemas)
    for view in VIEWS:
        paths.setdefault(view.path, {})[view.method.lower()] = _view(view)
    for entry in TABLE.values():
        if entry.route is not None:
            paths.setdefault(entry.route.path, {})[entry.route.method.lower()] = _operation(entry, entry.route, schemas)
    names = [status.name.lower() for status in Status if status] + ["not_found"]
    schemas.components["Error"] = {
        "type": "object",
        "description": "The reason for a refusal: the number and name of the status, a description, and the invalid field.",
        "properties": {
            "id": {"type": "integer"},
            "code": {"type": "string", "examples": names},
            "reason": {"type": "string"},
            "field": {"type": ["string", "null"]},
        },
        "required": ["id", "code", "reason", "field"],
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Headstream", "version": __version__, "description": _ABOUT},
        "paths": paths,
        "components": {
            "schemas": dict(sorted(schemas.components.items())),
            "responses": {number: _refusal(*row) for number, row in _REFUSALS.items()},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}},
        },
        "security": [{"token": []}],
    }


def _operation(entry: CodeEntry, route: Route, schemas: Schemas) -> dict[str, Any]:
    kind = COMMANDS[entry.code]
    in_path = [field for field in fields_of(kind) if "{" + field.json_name + "}" in route.path]
    others = [field for field in fields_of(kind) if field not in in_path]
    has_body = route.method in ("POST", "PUT")
    parameters = [_parameter(field, "path", schemas) for field in in_path]
    if not has_body:
        parameters += [_parameter(field, "query", schemas) for field in others]
    operation: dict[str, Any] = {
        "operationId": entry.name,
        "tags": [entry.name.split(".")[0]],
        "summary": (kind.__doc__ or "").split("\n")[0],
        "parameters": parameters,
        "responses": {str(route.success): _success(kind, schemas), **_refusals(entry.needs_login, has_body)},
    }
    if has_body:
        operation["requestBody"] = _body(schemas.body(kind, others))
        if kind.has_messages:
            operation["requestBody"]["content"] |= _IN_BINARY
    if not entry.needs_login:
        operation["security"] = []
    return operation


def _page(page: PageRoute, schemas: Schemas) -> dict[str, Any]:
    schema: Schema = {"type": "object"} if page.content_type == "application/json" else {"type": "string"}
    reply = schema if page.reply is None else schemas.record(page.reply)
    operation: dict[str, Any] = {
        "operationId": page.path.strip("/").replace("/", ".") or "root",
        "tags": ["pages"],
        "summary": page.about,
        "responses": {"200": {"description": page.about, "content": {page.content_type: {"schema": reply}}}},
        "security": [],
    }
    if page.body is not None:
        operation["requestBody"] = _body(schemas.record(page.body))
        operation["responses"] |= _refusals(needs_login=True, has_body=True)
    return operation


def _view(view: View) -> dict[str, Any]:
    in_path = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in _NAMES.findall(view.path)]
    in_query = [{"name": name, "in": "query", "required": False, "schema": dict(schema)} for name, schema in view.query.items()]
    schema: Schema = {"type": "object"} if view.content_type == "application/json" else {"type": "string", "format": "binary"}
    operation: dict[str, Any] = {
        "operationId": f"view.{view.answer.__name__}",  # published: generated clients have these names
        "tags": ["views"],
        "summary": view.about,
        "parameters": in_path + in_query,
        "responses": {
            "200": {"description": view.about, "content": {view.content_type: {"schema": schema}}},
            **_refusals(needs_login=True, has_body=bool(view.body)),
        },
    }
    if view.body:
        members = {name: dict(member) for name, member in view.body.items()}
        operation["requestBody"] = _body({"type": "object", "properties": members, "additionalProperties": False})
    return operation


def _parameter(field: RecordField, place: str, schemas: Schemas) -> dict[str, Any]:
    needed = place == "path" or field.is_needed
    return {"name": field.json_name, "in": place, "required": needed, "schema": schemas.of(field.shape)}


def _body(schema: Schema) -> dict[str, Any]:
    return {"required": True, "content": {"application/json": {"schema": schema}}}


def _success(kind: type[Command[Any]], schemas: Schemas) -> dict[str, Any]:
    answer = {"description": "Done."}
    if kind.code == Code.PING:
        return answer | {"content": {"text/plain": {"schema": {"type": "string", "const": "pong"}}}}
    if kind.code == Code.SNAPSHOT:
        return answer | {"content": {"application/zip": {"schema": {"type": "string", "format": "binary"}}}}
    if kind.reply is NOTHING:
        return answer
    content = {"application/json": {"schema": schemas.of(kind.reply)}}
    return answer | {"content": content | _IN_BINARY if kind.has_messages else content}


def _refusals(needs_login: bool, has_body: bool) -> dict[str, Any]:
    numbers = ["400", *(("401", "403") if needs_login else ("401",)), "404", *(_WITH_BODY if has_body else ()), "500"]
    return {number: {"$ref": f"#/components/responses/{number}"} for number in numbers}


def _refusal(about: str, spelled: str) -> dict[str, Any]:
    json = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    text = {"text/plain": {"schema": {"type": "string"}}}
    content = (json if spelled in ("json", "both") else {}) | (text if spelled in ("text", "both") else {})
    return {"description": about} | ({"content": content} if content else {})
