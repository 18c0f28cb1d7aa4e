"""The command table: code, name, whether a login is needed, and HTTP route.

A parameter in braces is the JSON name of a command field. Fields that are not in the path are sent in the query (GET and
DELETE) or as JSON in the body (POST and PUT).

Codes from 10000 are Headstream's own. These commands are available over TCP to clients that logged in with the context
"headstream", and over HTTP to all clients.
"""

from __future__ import annotations

import enum
from typing import Final, Literal, NamedTuple, TypeAlias

from headstream.core.wire.statuses import Status

Method: TypeAlias = Literal["GET", "POST", "PUT", "DELETE"]

EXTENSION_CODES: Final = range(10_000, 20_000)
"""Codes of Headstream's own commands."""

EXTENSION_CONTEXT: Final = "headstream"
"""The login context of a client that supports Headstream's own commands."""


class Code(enum.IntEnum):
    """The commands."""

    PING = 1
    STATS = 10
    SNAPSHOT = 11
    GET_CLUSTER = 12
    DESCRIBE_OPTIONS = 13
    ME = 20
    GET_CLIENT = 21
    LIST_CLIENTS = 22
    GET_USER = 31
    LIST_USERS = 32
    CREATE_USER = 33
    DELETE_USER = 34
    UPDATE_USER = 35
    UPDATE_PERMISSIONS = 36
    CHANGE_PASSWORD = 37
    LOGIN = 38
    LOGOUT = 39
    LIST_TOKENS = 41
    CREATE_TOKEN = 42
    DELETE_TOKEN = 43
    LOGIN_WITH_TOKEN = 44
    POLL_MESSAGES = 100
    SEND_MESSAGES = 101
    FLUSH_MESSAGES = 102
    GET_OFFSET = 120
    STORE_OFFSET = 121
    DELETE_OFFSET = 122
    GET_STREAM = 200
    LIST_STREAMS = 201
    CREATE_STREAM = 202
    DELETE_STREAM = 203
    UPDATE_STREAM = 204
    PURGE_STREAM = 205
    GET_TOPIC = 300
    LIST_TOPICS = 301
    CREATE_TOPIC = 302
    DELETE_TOPIC = 303
    UPDATE_TOPIC = 304
    PURGE_TOPIC = 305
    CREATE_PARTITIONS = 402
    DELETE_PARTITIONS = 403
    DELETE_SEGMENTS = 503
    GET_GROUP = 600
    LIST_GROUPS = 601
    CREATE_GROUP = 602
    DELETE_GROUP = 603
    JOIN_GROUP = 604
    LEAVE_GROUP = 605
    SYNC_GROUP = 606

    FETCH_MESSAGES = 10_000
    WAIT_MESSAGES = 10_001
    APPEND_MESSAGES = 10_002
    SET_STATE = 10_003
    LIST_STATES = 10_004
    MEASURE_RANGE = 10_005
    FILTER_MESSAGES = 10_006
    REMOVE_MARKED = 10_017
    GET_DELIVERIES = 10_007
    SETTLE_DELIVERIES = 10_008
    LEASE_MESSAGES = 10_009
    SETTLE_LEASES = 10_015
    COUNT_SEGMENTS = 10_016
    CREATE_OPEN_TOPIC = 10_010
    GET_OPEN_TOPIC = 10_011
    LIST_OPEN_TOPICS = 10_012
    CHANGE_TOPIC_OPTIONS = 10_013
    RENAME_TOPIC = 10_014
    STAGE_BATCH = 10_020
    COMMIT_EPOCH = 10_021
    GET_EPOCH = 10_022
    UNSTAGE_PARTS = 10_023
    GET_GROUP_LAG = 10_030
    LIST_GROUP_LAGS = 10_031
    SEEK_GROUP = 10_032
    ENTER_GROUP = 10_033
    EXIT_GROUP = 10_034
    REPORT_MEMBER = 10_035
    COMMIT_MEMBER = 10_036
    GET_GROUP_DELIVERIES = 10_037
    GET_DELIVERY = 10_038
    COMMIT_OFFSETS = 10_040
    LIST_OFFSETS = 10_041
    GET_IDENTITY = 10_050
    INIT_PRODUCER = 10_060
    APPEND_NUMBERED = 10_061
    RELEASE_PRODUCER = 10_062


class Route(NamedTuple):
    """The HTTP form of a command: method, path, and status code on success."""

    method: Method
    path: str
    success: int = 200


class CodeEntry(NamedTuple):
    """The properties of a command that are known before its payload is decoded.

    Args:
        needs_login: Whether the command is rejected if no user is logged in.
        is_lookup: Whether the response for "not found", "not logged in" and "not permitted" is an empty reply (over HTTP: 404).
        later_path: A second path of the route, in Iggy servers since 0.9.
    """

    code: Code
    name: str
    needs_login: bool = True
    route: Route | None = None
    is_lookup: bool = False
    refusal: Status = Status.UNAUTHENTICATED
    later_path: str | None = None

    @property
    def is_extension(self) -> bool:
        """Whether the command is Headstream's own."""
        return self.code >= EXTENSION_CODES.start  # `in range` compares members of an enumeration one by one


_S: Final = "/streams/{stream_id}"
_T: Final = _S + "/topics/{topic_id}"
_G: Final = _T + "/consumer-groups/{group_id}"
_P: Final = _T + "/partitions/{partition_id}"
_CLIENT: Final = "/clients/{client_id}"
_USER: Final = "/users/{user_id}"
_TOKENS: Final = "/personal-access-tokens"
_OFFSETS: Final = _T + "/consumer-offsets"

_ENTRIES: Final = (
    CodeEntry(Code.PING, "ping", False, Route("GET", "/ping")),
    CodeEntry(Code.STATS, "stats", True, Route("GET", "/stats")),
    CodeEntry(Code.SNAPSHOT, "snapshot", True, Route("POST", "/snapshot")),
    CodeEntry(Code.GET_CLUSTER, "cluster", True, Route("GET", "/cluster/metadata")),
    CodeEntry(Code.DESCRIBE_OPTIONS, "options.describe", True, Route("GET", "/options/{scope}")),
    CodeEntry(Code.ME, "me"),
    CodeEntry(Code.GET_CLIENT, "client.get", True, Route("GET", _CLIENT), is_lookup=True),
    CodeEntry(Code.LIST_CLIENTS, "client.list", True, Route("GET", "/clients")),
    CodeEntry(Code.GET_USER, "user.get", True, Route("GET", _USER), is_lookup=True),
    CodeEntry(Code.LIST_USERS, "user.list", True, Route("GET", "/users")),
    CodeEntry(Code.CREATE_USER, "user.create", True, Route("POST", "/users")),
    CodeEntry(Code.DELETE_USER, "user.delete", True, Route("DELETE", _USER, 204)),
    CodeEntry(Code.UPDATE_USER, "user.update", True, Route("PUT", _USER, 204)),
    CodeEntry(Code.UPDATE_PERMISSIONS, "user.permissions", True, Route("PUT", _USER + "/permissions", 204)),
    CodeEntry(Code.CHANGE_PASSWORD, "user.password", True, Route("PUT", _USER + "/password", 204)),
    CodeEntry(Code.LOGIN, "user.login", False, Route("POST", "/users/login")),
    CodeEntry(Code.LOGOUT, "user.logout", True, Route("DELETE", "/users/logout", 204)),
    CodeEntry(Code.LIST_TOKENS, "personal_access_token.list", True, Route("GET", _TOKENS)),
    CodeEntry(Code.CREATE_TOKEN, "personal_access_token.create", True, Route("POST", _TOKENS)),
    CodeEntry(Code.DELETE_TOKEN, "personal_access_token.delete", True, Route("DELETE", _TOKENS + "/{name}", 204)),
    CodeEntry(Code.LOGIN_WITH_TOKEN, "personal_access_token.login", False, Route("POST", _TOKENS + "/login")),
    CodeEntry(Code.POLL_MESSAGES, "message.poll", True, Route("GET", _T + "/messages")),
    CodeEntry(Code.SEND_MESSAGES, "message.send", True, Route("POST", _T + "/messages", 201)),
    CodeEntry(
        Code.FLUSH_MESSAGES, "message.flush_unsaved_buffer", True, Route("GET", _T + "/messages/flush/{partition_id}/{fsync}")
    ),
    CodeEntry(Code.GET_OFFSET, "consumer_offset.get", True, Route("GET", _OFFSETS), is_lookup=True),
    CodeEntry(Code.STORE_OFFSET, "consumer_offset.store", True, Route("PUT", _OFFSETS, 204)),
    CodeEntry(Code.DELETE_OFFSET, "consumer_offset.delete", True, Route("DELETE", _OFFSETS + "/{id}", 204)),
    CodeEntry(Code.GET_STREAM, "stream.get", True, Route("GET", _S), is_lookup=True),
    CodeEntry(Code.LIST_STREAMS, "stream.list", True, Route("GET", "/streams")),
    CodeEntry(Code.CREATE_STREAM, "stream.create", True, Route("POST", "/streams")),
    CodeEntry(Code.DELETE_STREAM, "stream.delete", True, Route("DELETE", _S, 204)),
    CodeEntry(Code.UPDATE_STREAM, "stream.update", True, Route("PUT", _S, 204)),
    CodeEntry(Code.PURGE_STREAM, "stream.purge", True, Route("DELETE", _S + "/purge", 204), refusal=Status.UNAUTHORIZED),
    CodeEntry(Code.GET_TOPIC, "topic.get", True, Route("GET", _T), is_lookup=True),
    CodeEntry(Code.LIST_TOPICS, "topic.list", True, Route("GET", _S + "/topics")),
    CodeEntry(Code.CREATE_TOPIC, "topic.create", True, Route("POST", _S + "/topics")),
    CodeEntry(Code.DELETE_TOPIC, "topic.delete", True, Route("DELETE", _T, 204)),
    CodeEntry(Code.UPDATE_TOPIC, "topic.update", True, Route("PUT", _T, 204)),
    CodeEntry(Code.PURGE_TOPIC, "topic.purge", True, Route("DELETE", _T + "/purge", 204)),
    CodeEntry(Code.CREATE_PARTITIONS, "partition.create", True, Route("POST", _T + "/partitions", 201)),
    CodeEntry(Code.DELETE_PARTITIONS, "partition.delete", True, Route("DELETE", _T + "/partitions", 204)),
    CodeEntry(Code.DELETE_SEGMENTS, "segment.delete", True, Route("DELETE", _P + "/segments", 204), later_path=_P),
    CodeEntry(Code.GET_GROUP, "consumer_group.get", True, Route("GET", _G), is_lookup=True),
    CodeEntry(Code.LIST_GROUPS, "consumer_group.list", True, Route("GET", _T + "/consumer-groups")),
    CodeEntry(Code.CREATE_GROUP, "consumer_group.create", True, Route("POST", _T + "/consumer-groups", 201)),
    CodeEntry(Code.DELETE_GROUP, "consumer_group.delete", True, Route("DELETE", _G, 204)),
    CodeEntry(Code.JOIN_GROUP, "consumer_group.join"),
    CodeEntry(Code.LEAVE_GROUP, "consumer_group.leave"),
    CodeEntry(Code.SYNC_GROUP, "consumer_group.sync"),
    CodeEntry(Code.FETCH_MESSAGES, "message.fetch", True, Route("POST", _T + "/messages/fetch")),
    CodeEntry(Code.WAIT_MESSAGES, "message.wait", True, Route("POST", _T + "/messages/wait")),
    CodeEntry(Code.APPEND_MESSAGES, "message.append", True, Route("POST", _P + "/messages/append")),
    CodeEntry(Code.SET_STATE, "message.set_state", True, Route("PUT", _P + "/states", 204)),
    CodeEntry(Code.LIST_STATES, "message.list_states", True, Route("GET", _P + "/states")),
    CodeEntry(Code.REMOVE_MARKED, "message.remove_marked", True, Route("POST", _P + "/removals")),
    CodeEntry(Code.MEASURE_RANGE, "message.measure", True, Route("GET", _P + "/range")),
    CodeEntry(Code.FILTER_MESSAGES, "message.filter", True, Route("GET", _P + "/messages")),
    CodeEntry(Code.COUNT_SEGMENTS, "message.count_segments", True, Route("GET", _T + "/segments")),
    CodeEntry(Code.GET_DELIVERIES, "delivery.get", True, Route("GET", _G + "/partitions/{partition_id}/deliveries")),
    CodeEntry(Code.SETTLE_DELIVERIES, "delivery.settle", True, Route("PUT", _G + "/partitions/{partition_id}/deliveries")),
    CodeEntry(Code.GET_GROUP_DELIVERIES, "delivery.count", True, Route("GET", _G + "/deliveries")),
    CodeEntry(Code.GET_DELIVERY, "delivery.tell", True, Route("GET", _G + "/partitions/{partition_id}/deliveries/{offset}")),
    CodeEntry(Code.LEASE_MESSAGES, "lease.grant", True, Route("POST", _G + "/leases")),
    CodeEntry(Code.SETTLE_LEASES, "lease.settle", True, Route("PUT", _G + "/partitions/{partition_id}/leases")),
    CodeEntry(Code.CREATE_OPEN_TOPIC, "topic.create_open", True, Route("POST", "/open/topics")),
    CodeEntry(Code.GET_OPEN_TOPIC, "topic.get_open", True, Route("GET", "/open" + _T)),
    CodeEntry(Code.LIST_OPEN_TOPICS, "topic.list_open", True, Route("GET", "/open/topics")),
    CodeEntry(Code.CHANGE_TOPIC_OPTIONS, "topic.change_options", True, Route("PUT", "/open" + _T)),
    CodeEntry(Code.RENAME_TOPIC, "topic.rename", True, Route("PUT", "/open" + _T + "/name", 204)),
    CodeEntry(Code.STAGE_BATCH, "epoch.stage", True, Route("POST", "/epochs/{writer}/{epoch}/batches", 201)),
    CodeEntry(Code.COMMIT_EPOCH, "epoch.commit", True, Route("POST", "/epochs/{writer}/{epoch}/commit")),
    CodeEntry(Code.GET_EPOCH, "epoch.get", True, Route("GET", "/epochs/{writer}")),
    CodeEntry(Code.UNSTAGE_PARTS, "epoch.unstage", True, Route("PUT", "/epochs/{writer}/{epoch}/unstaged", 204)),
    CodeEntry(Code.GET_GROUP_LAG, "consumer_group.lag", True, Route("GET", _G + "/lag")),
    CodeEntry(Code.LIST_GROUP_LAGS, "consumer_group.list_lags", True, Route("GET", _T + "/consumer-group-lags")),
    CodeEntry(Code.SEEK_GROUP, "consumer_group.seek", True, Route("PUT", _G + "/offsets")),
    CodeEntry(Code.ENTER_GROUP, "consumer_group.enter", True, Route("POST", _G + "/members")),
    CodeEntry(Code.EXIT_GROUP, "consumer_group.exit", True, Route("DELETE", _G + "/members/{member_id}", 204)),
    CodeEntry(Code.REPORT_MEMBER, "consumer_group.report", True, Route("PUT", _G + "/members/{member_id}")),
    CodeEntry(Code.COMMIT_MEMBER, "consumer_group.commit", True, Route("PUT", _G + "/members/{member_id}/offsets")),
    CodeEntry(Code.COMMIT_OFFSETS, "consumer_offset.commit", True, Route("PUT", _OFFSETS + "/committed", 204)),
    CodeEntry(Code.LIST_OFFSETS, "consumer_offset.list", True, Route("GET", _OFFSETS + "/committed")),
    CodeEntry(Code.GET_IDENTITY, "log.identity", True, Route("GET", "/open/identity")),
    CodeEntry(Code.INIT_PRODUCER, "producer.init", True, Route("POST", "/producers", 201)),
    CodeEntry(Code.APPEND_NUMBERED, "message.append_numbered", True, Route("POST", _P + "/messages/append-numbered")),
    CodeEntry(Code.RELEASE_PRODUCER, "producer.release", True, Route("DELETE", _T + "/producers/{producer_id}", 204)),
)

TABLE: Final[dict[int, CodeEntry]] = {entry.code: entry for entry in _ENTRIES}
"""Every command by its code."""


def name_of_code(code: int) -> str:
    """Return the name of a command; `unknown(n)` for an unknown code."""
    entry = TABLE.get(code)
    return f"unknown({code})" if entry is None else entry.name
