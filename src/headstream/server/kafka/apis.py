"""The supported APIs: schemas, versions, handlers, and where the handlers run."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from headstream.core.wire.codes import Code
from headstream.server.kafka import sessions
from headstream.server.kafka.calls import Call, Reply
from headstream.server.kafka.groups import group_offsets, groups
from headstream.server.kafka.handlers import cluster, configs, offsets, produce, topic_changes
from headstream.server.kafka.protocol.error_codes import ErrorCode
from headstream.server.kafka.protocol.group_schemas import SCHEMAS as GROUP_SCHEMAS
from headstream.server.kafka.protocol.record_schemas import SCHEMAS as RECORD_SCHEMAS
from headstream.server.kafka.protocol.schema import Schema
from headstream.server.kafka.protocol.topic_schemas import SCHEMAS as TOPIC_SCHEMAS

PRODUCE: Final = 0
FETCH: Final = 1
SASL_HANDSHAKE: Final = 17
API_VERSIONS: Final = 18
SASL_AUTHENTICATE: Final = 36


class RunsOn(enum.Enum):
    """Where a handler runs.

    LOOP: in the event loop, because it is fast.
    WORK: on a thread, because it changes the catalog or waits for the disk.
    SCAN: on one of a few threads, because it reads many partitions.
    PASSWORD: on a thread for password checks, which are slow.
    FETCH, GROUP: may wait for messages, or for other members of a group.
    """

    LOOP = 0
    WORK = Code.CREATE_TOPIC
    SCAN = Code.STATS
    PASSWORD = Code.LOGIN
    FETCH = -1
    GROUP = -2


class Api(NamedTuple):
    """One API.

    Args:
        first_version: The first supported version.
        advertised_from: The lowest version advertised in ApiVersions; None: the lowest supported version.
    """

    name: str
    request: Schema
    response: Schema
    first_version: int
    last_version: int
    handler: Callable[[Call], Any]
    runs_on: RunsOn
    advertised_from: int | None = None


_SCHEMAS: Final = RECORD_SCHEMAS | TOPIC_SCHEMAS | GROUP_SCHEMAS


def list_versions(call: Call) -> Reply:
    """Return the supported versions of each API."""
    if call.version >= 3 and not (
        sessions.is_software(call.request["client_software_name"])
        and sessions.is_software(call.request["client_software_version"])
    ):
        return {"error_code": ErrorCode.INVALID_REQUEST}
    return {
        "api_keys": [
            {
                "api_key": key,
                "min_version": api.first_version if api.advertised_from is None else api.advertised_from,
                "max_version": api.last_version,
            }
            for key, api in sorted(APIS.items())
        ]
    }


def _refuse(call: Call) -> Reply:
    raise AssertionError(f"the connection answers {call.client_id}")


def _make(schemas: Mapping[tuple[str, str], Schema], rows: Mapping[str, tuple[Callable[[Call], Any], RunsOn]]) -> dict[int, Api]:
    found = {}
    for name, (handler, runs_on) in rows.items():
        request, response = schemas[name, "request"], schemas[name, "response"]
        found[request.api_key] = Api(name, request, response, request.first_version, request.last_version, handler, runs_on)
    return found


APIS: Final[dict[int, Api]] = _make(
    _SCHEMAS,
    {
        "api_versions": (list_versions, RunsOn.LOOP),
        "sasl_handshake": (sessions.handle_handshake, RunsOn.LOOP),
        "sasl_authenticate": (sessions.authenticate, RunsOn.PASSWORD),
        "metadata": (cluster.list_topics, RunsOn.LOOP),
        "describe_cluster": (cluster.describe_cluster, RunsOn.LOOP),
        "describe_acls": (cluster.describe_acls, RunsOn.LOOP),
        "describe_log_dirs": (cluster.describe_log_dirs, RunsOn.SCAN),
        "list_partition_reassignments": (cluster.list_reassignments, RunsOn.LOOP),
        "create_topics": (topic_changes.create_topics, RunsOn.WORK),
        "delete_topics": (topic_changes.delete_topics, RunsOn.WORK),
        "create_partitions": (topic_changes.create_partitions, RunsOn.WORK),
        "delete_records": (topic_changes.delete_records, RunsOn.WORK),
        "describe_configs": (configs.describe_configs, RunsOn.LOOP),
        "alter_configs": (configs.alter_configs, RunsOn.WORK),
        "incremental_alter_configs": (configs.change_configs, RunsOn.WORK),
        "produce": (produce.produce, RunsOn.LOOP),
        "init_producer_id": (produce.init_producer, RunsOn.WORK),
        "fetch": (_refuse, RunsOn.FETCH),
        "list_offsets": (offsets.list_offsets, RunsOn.LOOP),
        "offset_for_leader_epoch": (offsets.find_epoch_ends, RunsOn.LOOP),
        "find_coordinator": (groups.find_coordinator, RunsOn.LOOP),
        "join_group": (groups.join_group, RunsOn.GROUP),
        "sync_group": (groups.sync_group, RunsOn.GROUP),
        "heartbeat": (groups.beat, RunsOn.LOOP),
        "leave_group": (groups.leave_group, RunsOn.LOOP),
        "describe_groups": (groups.describe_groups, RunsOn.SCAN),
        "list_groups": (groups.list_groups, RunsOn.SCAN),
        "delete_groups": (groups.delete_groups, RunsOn.WORK),
        "offset_commit": (group_offsets.commit_offsets, RunsOn.LOOP),
        "offset_fetch": (group_offsets.fetch_offsets, RunsOn.LOOP),
        "offset_delete": (group_offsets.delete_offsets, RunsOn.LOOP),
    },
)
APIS[PRODUCE] = APIS[PRODUCE]._replace(advertised_from=0)  # without version 0, some clients disable compression

UNSUPPORTED: Final = b"".join(
    APIS[API_VERSIONS].response.encode(
        0,
        {
            "error_code": ErrorCode.UNSUPPORTED_VERSION,
            "api_keys": [{"api_key": API_VERSIONS, "min_version": 0, "max_version": APIS[API_VERSIONS].last_version}],
        },
    )
)
"""Response to an unsupported ApiVersions version: the supported versions, in a format that every client can read."""


def status_of(reply: Any) -> int:
    """Return the first nonzero error code in a response, or 0; the response can be None."""
    if isinstance(reply, dict):
        code = reply.get("error_code", 0)
        if code:
            return int(code)
        return next((found for value in reply.values() if isinstance(value, list) and (found := status_of(value))), 0)
    if isinstance(reply, list):
        return next((found for value in reply if isinstance(value, dict) and (found := status_of(value))), 0)
    return 0
