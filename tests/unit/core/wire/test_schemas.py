"""Schemas: what commands and replies spell fits the schema that is made of the same shapes, and what does not fit is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from headstream.core.wire import codes, command_classes, fields, records
from headstream.core.wire.schemas import Schema, Schemas
from headstream.errors import DecodeError
from tests.unit.core.wire import test_commands, test_extensions

EXAMPLES = [command for command in (*test_commands.EXAMPLES, *test_extensions.EXAMPLES) if command.entry().route]
REPLIES = [(kind, reply) for kind, reply in (*test_commands.REPLIES, *test_extensions.REPLIES)]


def check(schemas: Schemas, schema: Schema, document: Any) -> list[str]:
    Draft202012Validator.check_schema({**schema, "components": {"schemas": schemas.components}})
    return errors_of(schemas, schema, document)


def errors_of(schemas: Schemas, schema: Schema, document: Any) -> list[str]:
    whole = {**schema, "components": {"schemas": schemas.components}}
    return [error.message for error in Draft202012Validator(whole).iter_errors(document)]


def id_of(example: Any) -> str:
    return type(example).__name__


def body_of(command: records.Command[Any]) -> tuple[Schemas, Schema]:
    schemas = Schemas()
    route = command.entry().route
    assert route is not None
    others = [field for field in fields.fields_of(type(command)) if "{" + field.json_name + "}" not in route.path]
    return schemas, schemas.body(type(command), others)


@pytest.mark.parametrize("command", EXAMPLES, ids=id_of)
def test_a_body_fits_its_schema(command: records.Command[Any]) -> None:
    asked = command.to_json()
    if asked.body is not None:
        assert check(*body_of(command), json.loads(json.dumps(asked.body))) == []


@pytest.mark.parametrize("command", EXAMPLES, ids=id_of)
def test_a_body_without_a_needed_member_fits_no_schema_and_is_refused(command: records.Command[Any]) -> None:
    asked = command.to_json()
    if asked.body is None:
        return
    schemas, schema = body_of(command)
    route = command.entry().route
    assert route is not None
    path = {field.json_name: "1" for field in fields.fields_of(type(command)) if "{" + field.json_name + "}" in route.path}
    for name in asked.body:
        cut = {member: value for member, value in asked.body.items() if member != name}
        fits = errors_of(schemas, schema, cut) == []
        try:
            type(command).from_json(path, {}, cut)
        except DecodeError:
            assert not fits, name
        else:
            assert fits, name


@pytest.mark.parametrize(("kind", "reply"), REPLIES)
def test_a_reply_fits_its_schema(kind: type[records.Command[Any]], reply: Any) -> None:
    schemas = Schemas()
    if reply is not None:
        document = json.loads(json.dumps(kind.reply_to_json(reply)))
        assert check(schemas, schemas.of(kind.reply), document) == []
        if isinstance(document, dict):
            assert set(document) <= set(schemas.components[type(reply).__name__]["properties"])


def test_every_command_and_reply_has_a_schema() -> None:
    schemas = Schemas()
    for code, kind in command_classes.COMMANDS.items():
        if codes.TABLE[code].route is None:
            continue
        for field in fields.fields_of(kind):
            Draft202012Validator.check_schema(schemas.of(field.shape))
        if kind.reply is not records.NOTHING and kind.__name__ != "Snapshot":
            Draft202012Validator.check_schema(schemas.of(kind.reply))
    assert {"TopicDetails", "Permissions", "StreamPermissions", "PolledMessages", "GroupLag", "Stats"} <= set(schemas.components)
