"""The description of the interface: whole, of every route, and nothing in it that leads nowhere."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from headstream.core.wire.codes import TABLE
from headstream.core.wire.command_classes import COMMANDS
from headstream.core.wire.commands.tokens import RawToken
from headstream.core.wire.fields import fields_of
from headstream.server.http.openapi import describe
from headstream.server.http.routes import PageRoute
from headstream.server.http.views import VIEWS

PAGE = PageRoute("POST", "/page", "Do something.", "application/json", RawToken, RawToken)


@pytest.fixture(scope="module")
def description() -> Any:
    return json.loads(json.dumps(describe([PAGE])))


def test_every_route_is_described_once(description: Any) -> None:
    described = {
        (method.upper(), path): operation
        for path, methods in description["paths"].items()
        for method, operation in methods.items()
    }
    routes = {(entry.route.method, entry.route.path): entry for entry in TABLE.values() if entry.route is not None}
    assert set(described) == set(routes) | {("POST", "/page")} | {(view.method, view.path) for view in VIEWS}
    ids = [operation["operationId"] for operation in described.values()]
    assert len(ids) == len(set(ids))
    for key, entry in routes.items():
        assert described[key]["operationId"] == entry.name
        assert entry.route is not None
        assert str(entry.route.success) in described[key]["responses"]
        assert (described[key].get("security") == []) is not entry.needs_login


def test_each_field_of_a_command_is_in_path_query_or_body(description: Any) -> None:
    for code, kind in COMMANDS.items():
        route = TABLE[code].route
        if route is None:
            continue
        operation = description["paths"][route.path][route.method.lower()]
        named = {parameter["name"] for parameter in operation["parameters"]}
        body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
        assert named | set(body.get("properties", ())) == {field.json_name for field in fields_of(kind)}, kind.__name__
        in_path = {parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "path"}
        assert in_path == set(re.findall(r"\{(\w+)\}", route.path))
        assert all(parameter["required"] for parameter in operation["parameters"] if parameter["in"] == "path")
        assert ("requestBody" in operation) is (route.method in ("POST", "PUT"))


def references_of(document: Any) -> set[str]:
    if isinstance(document, dict):
        own = {document["$ref"]} if "$ref" in document else set()
        return own.union(*(references_of(value) for value in document.values()))
    return set().union(*(references_of(item) for item in document)) if isinstance(document, list) else set()


def test_references_lead_somewhere_and_nothing_is_described_in_vain(description: Any) -> None:
    schemas, responses = description["components"]["schemas"], description["components"]["responses"]
    there = {f"#/components/schemas/{name}" for name in schemas} | {f"#/components/responses/{name}" for name in responses}
    assert references_of(description) == there


def test_every_schema_of_the_description_is_a_valid_json_schema(description: Any) -> None:
    for schema in description["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object"
