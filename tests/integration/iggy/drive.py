"""Drives one of Iggy's own Python clients: a call a line as JSON on the standard input, its result a line on the output.

Run by the interpreter of the client's own environment, so it knows nothing of this repository. Both generations of the
API are served: one that blocks (0.2.7) and one that is awaited (0.4.0).

    {"call": "poll_messages", "args": ["orders", "eu", 1, {"strategy": "Offset", "value": 3}, 10, false]}
    {"result": [{"payload": "...", "offset": 3, ...}]}    or    {"error": "PartitionNotFound(0, 0, 0)"}
"""

import asyncio
import inspect
import json
import sys
from typing import Any

import iggy_py


def argument(value: Any) -> Any:
    """Return what the client takes for a value of JSON."""
    if isinstance(value, dict):
        strategy = getattr(iggy_py.PollingStrategy, value["strategy"])
        return strategy(value["value"]) if "value" in value else strategy()
    if isinstance(value, list):
        return [iggy_py.SendMessage(text) for text in value]
    return value


def plain(value: Any) -> Any:
    """Return a result of the client as values of JSON."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, iggy_py.ReceiveMessage):
        names = ("offset", "timestamp", "id", "checksum", "length")
        found = {name: getattr(value, name)() for name in names}
        return {**found, "payload": bytes(value.payload()).decode(), "state": str(value.state()).rpartition(".")[2]}
    if isinstance(value, (iggy_py.StreamDetails, iggy_py.TopicDetails)):
        return {name: getattr(value, name) for name in ("id", "name", "messages_count", "topics_count")}
    return value


async def main() -> None:
    client = iggy_py.IggyClient(sys.argv[1])
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            result = getattr(client, asked["call"])(*map(argument, asked["args"]))
            if inspect.isawaitable(result):
                result = await result
            answer = {"result": plain(result)}
        except RuntimeError as error:
            answer = {"error": str(error)}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


asyncio.run(main())
