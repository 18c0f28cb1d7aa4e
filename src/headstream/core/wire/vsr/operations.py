"""The operations of protocol 0.11: a write has its operation number in the header; all reads share one operation."""

from __future__ import annotations

from typing import Final

from headstream.core.wire.codes import Code

LOGIN: Final = 1
READ: Final = 2
LOGOUT: Final = 3
SEND: Final = 160

_WRITES: Final[dict[int, Code]] = {
    LOGIN: Code.LOGIN,
    LOGOUT: Code.LOGOUT,
    128: Code.CREATE_STREAM,
    129: Code.UPDATE_STREAM,
    130: Code.DELETE_STREAM,
    131: Code.PURGE_STREAM,
    132: Code.CREATE_TOPIC,
    133: Code.UPDATE_TOPIC,
    134: Code.DELETE_TOPIC,
    135: Code.PURGE_TOPIC,
    136: Code.CREATE_PARTITIONS,
    137: Code.DELETE_PARTITIONS,
    138: Code.DELETE_SEGMENTS,
    139: Code.CREATE_GROUP,
    140: Code.DELETE_GROUP,
    141: Code.CREATE_USER,
    142: Code.UPDATE_USER,
    143: Code.DELETE_USER,
    144: Code.CHANGE_PASSWORD,
    145: Code.UPDATE_PERMISSIONS,
    146: Code.CREATE_TOKEN,
    147: Code.DELETE_TOKEN,
    148: Code.JOIN_GROUP,
    149: Code.LEAVE_GROUP,
    SEND: Code.SEND_MESSAGES,
    161: Code.STORE_OFFSET,
    162: Code.DELETE_OFFSET,
}
_READS: Final = frozenset(
    {
        *(Code.PING, Code.STATS, Code.SNAPSHOT, Code.GET_CLUSTER, Code.DESCRIBE_OPTIONS, Code.ME, Code.GET_CLIENT),
        *(Code.LIST_CLIENTS, Code.GET_USER, Code.LIST_USERS, Code.LIST_TOKENS, Code.POLL_MESSAGES, Code.FLUSH_MESSAGES),
        *(Code.GET_OFFSET, Code.GET_STREAM, Code.LIST_STREAMS, Code.GET_TOPIC, Code.LIST_TOPICS, Code.GET_GROUP),
        *(Code.LIST_GROUPS, Code.SYNC_GROUP),
    }
)

RESULT_CODES: Final = {*_WRITES.values(), Code.LOGIN_WITH_TOKEN} - {Code.LOGOUT, Code.SEND_MESSAGES, Code.DELETE_SEGMENTS}
"""The commands whose reply begins with an error count, which is 0."""


def code_of(operation: int, read_code: int) -> int:
    """Return the command code of a request; 0 if there is no such command."""
    if operation == READ:
        return read_code if read_code in _READS else 0
    return _WRITES.get(operation, 0)
