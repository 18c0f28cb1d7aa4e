"""Scenarios with Iggy's current Python client, `apache-iggy`; each prints its result as one line of JSON.

Run by the interpreter of the client's own environment, so it knows nothing of this repository:

    scenarios_today.py ADDRESS SCENARIO STREAM
"""

import asyncio
import json
import os
import sys
from datetime import timedelta
from typing import Any

import apache_iggy
from apache_iggy import Consumer, HeaderValue, HttpConfig, IggyClient, Partitioning, PollingStrategy, SendMessage, TcpConfig

KINDS = {
    "raw": HeaderValue.Raw(b"\x00\xff"),
    "string": HeaderValue.String("tea"),
    "bool": HeaderValue.Bool(True),
    "int8": HeaderValue.Int8(-8),
    "int16": HeaderValue.Int16(-16),
    "int32": HeaderValue.Int32(-32),
    "int64": HeaderValue.Int64(-64),
    "int128": HeaderValue.Int128(-(1 << 100)),
    "uint8": HeaderValue.UnsignedInt8(3),
    "uint16": HeaderValue.UnsignedInt16(16),
    "uint32": HeaderValue.UnsignedInt32(32),
    "uint64": HeaderValue.UnsignedInt64((1 << 64) - 1),
    "uint128": HeaderValue.UnsignedInt128(1 << 100),
    "float32": HeaderValue.Float32(0.5),
    "float64": HeaderValue.Float64(0.1),
}


async def refused(call: Any) -> str:
    """Return the text of the error of a call, which must fail."""
    try:
        await call
    except RuntimeError as error:
        return str(error)
    return "not refused"


def make(address: str) -> IggyClient:
    """Return a client of HOST:PORT, of http://HOST:PORT, or over TLS of HOST:PORT/FILE with the certificate of the authority."""
    place, _, authority = address.partition("/")
    if place == "http:":
        return IggyClient(HttpConfig(api_url=address, retries=0))
    if authority:
        return IggyClient(TcpConfig(server_address=place, tls_enabled=True, tls_ca_file=f"/{authority}"))
    return IggyClient(address)


async def connect(address: str, user: str = "iggy", password: str = "iggy") -> IggyClient:
    client = make(address)
    await client.connect()
    await client.login_user(user, password)
    return client


def plain(message: Any) -> dict[str, Any]:
    """Return a message as JSON; headers as [kind, value]."""
    headers = message.user_headers() or {}
    shown = {}
    for key, value in headers.items():
        name, wrapped = getattr(key, "value", key), getattr(value, "value", value)
        shown[name] = [type(value).__name__, wrapped.hex() if isinstance(wrapped, bytes) else wrapped]
    found = {name: getattr(message, name)() for name in ("offset", "timestamp", "origin_timestamp", "partition_id")}
    return {**found, "id": str(message.id()), "payload": message.payload().decode(), "headers": shown}


async def poll(client: IggyClient, stream: str, topic: str = "eu", **given: Any) -> list[dict[str, Any]]:
    asked = {
        "consumer": Consumer.Single("reader"),
        "polling_strategy": PollingStrategy.First(),
        "count": 100,
        "auto_commit": False,
    }
    return [plain(each) for each in await client.poll_messages(stream, topic, **{**asked, **given})]


async def administration(address: str, stream: str) -> Any:
    client = await connect(address)
    await client.ping()
    await client.create_stream(stream)
    await client.create_topic(
        stream,
        "eu",
        2,
        compression_algorithm="gzip",
        message_expiry=apache_iggy.IggyExpiry.ExpireDuration(timedelta(days=7)),
        durability=apache_iggy.Durability.PERSISTED,
    )
    made = await client.get_topic(stream, "eu")
    await client.update_topic(stream, "eu", "europe")
    renamed = await client.get_topic(stream, "europe")
    await client.create_partitions(stream, "europe", 2)
    await client.delete_partitions(stream, "europe", 1)
    await client.create_consumer_group(stream, "europe", "billing")
    group = await client.get_consumer_group(stream, "europe", "billing")
    errors = [
        await refused(client.create_stream(stream)),
        await refused(client.create_topic(stream, "europe", 1)),
        await refused(client.create_topic(stream, "other", 1, options={"colour": "red"})),
        await refused(client.create_topic("nowhere", "eu", 1)),
        await refused(client.create_topic(stream, "other", 1, consumer_offset_durability=apache_iggy.Durability.PERSISTED)),
        await refused(client.send_messages(stream, "europe", 9, [SendMessage("a")])),
    ]
    missing = [await client.get_stream("nowhere"), await client.get_topic(stream, "nowhere")]
    topics = [topic.name for topic in await client.get_topics(stream)]
    streams = [each.name for each in await client.get_streams() if each.name == stream]
    partitions = [part.id for part in (await client.get_topic(stream, "europe")).partitions]
    stats = await client.get_stats()
    await client.update_stream(stream, f"{stream}-2")
    await client.purge_topic(f"{stream}-2", "europe")
    await client.purge_stream(f"{stream}-2")
    await client.delete_consumer_group(f"{stream}-2", "europe", "billing")
    await client.delete_topic(f"{stream}-2", "europe")
    await client.delete_stream(f"{stream}-2")
    return {
        "compression": [made.compression_algorithm, renamed.compression_algorithm],
        "expiry_kept": str(made.message_expiry.duration) == str(renamed.message_expiry.duration) == "7 days, 0:00:00",
        "group": [group.name, group.partitions_count, group.members_count],
        "errors": errors,
        "missing": missing,
        "lists": [topics, streams, partitions],
        "has_stats": stats.total_memory > 0,
        "options": [[each.key for each in await client.describe_options(scope)] for scope in ("topic", "stream", "user")],
    }


async def headers(address: str, stream: str) -> Any:
    client = await connect(address)
    await client.create_stream(stream)
    await client.create_topic(stream, "eu", 1)
    sent = await client.send_messages(stream, "eu", 0, [SendMessage("typed", KINDS), SendMessage("plain")])
    more = await client.send_messages(stream, "eu", Partitioning.balanced(), [SendMessage("more")])
    offsets = [each.base_offset for reply in (sent, more) for each in reply.confirmations]
    return {"offsets": offsets, "messages": await poll(client, stream)}


async def read(address: str, stream: str) -> Any:
    client = await connect(address)
    return await poll(client, stream)


async def offsets(address: str, stream: str) -> Any:
    client = await connect(address)
    await client.create_stream(stream)
    await client.create_topic(stream, "eu", 2)
    await client.send_messages(stream, "eu", 1, [SendMessage(str(number)) for number in range(10)])
    following = {"partition_id": 1, "polling_strategy": PollingStrategy.Next(), "auto_commit": True, "count": 4}
    pages = [[each["payload"] for each in await poll(client, stream, **following)] for _ in range(4)]
    last = await poll(client, stream, partition_id=1, polling_strategy=PollingStrategy.Last(), count=2)
    from_3 = await poll(client, stream, partition_id=1, polling_strategy=PollingStrategy.Offset(3), count=1)
    by_time = await poll(
        client, stream, partition_id=1, polling_strategy=PollingStrategy.Timestamp(last[0]["timestamp"]), count=1
    )
    empty = await poll(client, stream, partition_id=0)
    keyed = [await client.send_messages(stream, "eu", Partitioning.messages_key("42"), [SendMessage("k")]) for _ in range(2)]
    return {
        "pages": pages,
        "last": [each["payload"] for each in last],
        "from_3": from_3[0]["payload"],
        "by_time": by_time[0]["payload"],
        "empty": empty,
        "missing": await refused(poll(client, stream, partition_id=7)),
        "keyed": [each.partition_id for reply in keyed for each in reply.confirmations],
    }


async def group(address: str, stream: str) -> Any:
    """Two members read 40 messages of 4 partitions: what each got, and what a third member finds left."""
    first, second, third = [await connect(address) for _ in range(3)]
    await first.create_stream(stream)
    await first.create_topic(stream, "eu", 4)
    await first.create_consumer_group(stream, "eu", "billing")
    for client in (first, second):
        await client.join_consumer_group(stream, "eu", "billing")
    for partition in range(4):
        await first.send_messages(stream, "eu", partition, [SendMessage(f"{partition}-{n}") for n in range(10)])
    asked = {"consumer": Consumer.Group("billing"), "polling_strategy": PollingStrategy.Next(), "count": 5, "auto_commit": True}
    got: list[list[str]] = [[], []]
    for _ in range(8):
        for mine, client in zip(got, (first, second), strict=True):
            mine += [each["payload"] for each in await poll(client, stream, **asked)]
    for client in (first, second):
        await client.leave_consumer_group(stream, "eu", "billing")
    await third.join_consumer_group(stream, "eu", "billing")
    left = [each["payload"] for _ in range(4) for each in await poll(third, stream, **asked)]
    return {"got": got, "left": left}


async def consume(address: str, stream: str) -> Any:
    """The client's own consumer of a group: it joins, polls and stores offsets by itself."""
    client = await connect(address)
    await client.create_stream(stream)
    await client.create_topic(stream, "eu", 2)
    for partition in range(2):
        await client.send_messages(stream, "eu", partition, [SendMessage(f"{partition}-{n}") for n in range(5)])
    consumer = await client.consumer_group(
        "app",
        stream,
        "eu",
        polling_strategy=PollingStrategy.Next(),
        auto_commit=apache_iggy.AutoCommit.After(apache_iggy.AutoCommitAfter.ConsumingEachMessage()),
        poll_interval=timedelta(milliseconds=5),
    )
    found = []
    async for message in consumer.iter_messages():
        found.append(message.payload().decode())
        if len(found) == 10:
            break
    return sorted(found)


async def users(address: str, stream: str) -> Any:
    root = await connect(address)
    await root.create_stream(stream)
    await root.create_topic(stream, "eu", 1)
    user = f"u-{stream}"[:50]
    rights = apache_iggy.Permissions(global_permissions=apache_iggy.GlobalPermissions(poll_messages=True, read_topics=True))
    made = await root.create_user(user, "secret", permissions=rights)
    wrong = make(address)
    await wrong.connect()
    errors = [await refused(wrong.login_user(user, "wrong")), await refused(wrong.get_streams())]
    await wrong.login_user(user, "secret")
    polled = await poll(wrong, stream)
    errors += [
        await refused(wrong.send_messages(stream, "eu", 0, [SendMessage("a")])),
        await refused(wrong.create_stream("mine")),
    ]
    await wrong.change_password(user, "secret", "changed")
    again = await connect(address, user, "changed")
    await again.logout_user()
    errors.append(await refused(again.get_topics(stream)))
    await root.update_user(user, status=apache_iggy.UserStatus.Inactive)
    late = make(address)
    await late.connect()
    errors.append(await refused(late.login_user(user, "changed")))
    listed = [each.username for each in await root.get_users() if each.username == user]
    await root.delete_user(user)
    return {"made": made.username == user, "errors": errors, "polled": polled, "listed": listed == [user]}


SCENARIOS = {each.__name__: each for each in (administration, headers, read, offsets, group, consume, users)}
sys.stdout.write(json.dumps(asyncio.run(SCENARIOS[sys.argv[2]](sys.argv[1], sys.argv[3]))) + "\n")
sys.stdout.flush()
os._exit(0)  # the client's threads can abort the interpreter while it ends
