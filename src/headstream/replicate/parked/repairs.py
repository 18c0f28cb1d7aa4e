"""The messages of a repair: changes that a comparison with the source has found (compare/repair.py), from a request.

They are parked like messages whose schema has come, so that the next release applies them. In their flat form they name their
table; the schema id only selects them for the release.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from headstream.replicate.columns.raw import RAW_SCHEMA, REPAIR_TOPIC


def repair_rows(arguments: dict[str, Any], request: int, now_us: int) -> pa.RecordBatch:
    """Return the messages of a request as RAW_SCHEMA; their offsets differ by the request's number."""
    payloads = [json.dumps(message).encode() for message in arguments["messages"]]
    count = len(payloads)
    columns = {
        "topic": [REPAIR_TOPIC] * count,
        "partition": [0] * count,
        "offset": [(request << 32) + number for number in range(count)],
        "timestamp_us": [now_us] * count,
        "payload": payloads,
        "schema_id": [arguments["schema_id"]] * count,
    }
    arrays = [pa.array(columns.get(kind.name, [None] * count), kind.type) for kind in RAW_SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=RAW_SCHEMA)
