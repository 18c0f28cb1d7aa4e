"""Staged commits for tests: what is staged, who commits it, and what is in the log then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from headstream.core.codec.binary import decode_polled
from headstream.core.model.identifiers import TopicName
from headstream.core.model.topology import Fsync, Limits, NewTopic, TopicOptions
from headstream.log.administration import create_topic
from headstream.log.log import Log
from headstream.log.partition.size_limits import DEFAULT_SEGMENT_BYTES
from headstream.log.segments.follower import PartitionFollower
from headstream.log.segments.layout import INBOX_NAME, STAGED_NAME
from headstream.log.staged.staging import Manifest, StagedPart, StagedWriter, inbox_path
from headstream.log.staged.submission import commit_staged
from headstream.log.system.files import Files, OsFiles
from tests.support.messages.batches import sent

Rows = Mapping[tuple[str, int], Sequence[bytes]]

ORDERS, CARTS = "shop/orders", "shop/carts"
ROWS = {(ORDERS, 1): [b"a", b"b"], (ORDERS, 2): [b"c"], (CARTS, 1): [b"d"]}
MORE = {(ORDERS, 1): [b"e"], (CARTS, 1): [b"f", b"g"]}
BOTH = {(ORDERS, 1): [b"a", b"b", b"e"], (ORDERS, 2): [b"c"], (CARTS, 1): [b"d", b"f", b"g"]}


def open_log(root: Path, files: Files | None = None, segment_bytes: int = DEFAULT_SEGMENT_BYTES) -> Log:
    return Log(str(root), files or OsFiles(), is_memory=False, segment_bytes=segment_bytes)


def make_log(
    root: Path,
    topics: Mapping[str, int],
    *,
    fsync: Fsync = Fsync.INTERVAL,
    limits: Limits = Limits.IGGY,
    options: TopicOptions | None = None,
) -> str:
    """Make a log with topics of so many partitions, and return its identity."""
    log = open_log(root)
    log.start_writing("identity", 1)
    for name, partitions in topics.items():
        stream, topic = name.split("/")
        create_topic(log, NewTopic(TopicName(stream, topic), partitions, limits, fsync, options or TopicOptions()), 2)
    log.close()
    return "identity"


def stage(root: Path, writer: str, epoch: int, name: str, rows: Rows, *, with_ids: bool = False) -> StagedPart:
    """Stage a batch for every partition that is named; with ids, a message's is its payload's."""
    staged = StagedWriter(str(root), OsFiles(), writer, epoch, name)
    for (topic, partition), payloads in rows.items():
        messages = [sent(payload, message_id=int.from_bytes(payload) if with_ids else 0) for payload in payloads]
        staged.add(topic, partition, b"".join(messages), len(payloads))
    part = staged.finish()
    assert part is not None
    return part


def manifest_of(writer: str, epoch: int, *parts: StagedPart, identity: str = "identity") -> Manifest:
    topics = {chunk.topic for part in parts for chunk in part.chunks}
    return Manifest(writer, epoch, identity, dict.fromkeys(topics, "iggy"), parts)


def make_staged(root: Path, epoch: int = 7) -> Manifest:
    """Make a log, stage two parts of an epoch for it, and return their manifest."""
    make_log(root, {ORDERS: 2, CARTS: 1})
    return manifest_of("query", epoch, stage(root, "query", epoch, "0", ROWS), stage(root, "query", epoch, "1", MORE))


def commit(root: Path, manifest: Manifest, timeout_s: float = 20) -> None:
    """Commit what was staged."""
    commit_staged(str(root), manifest, timeout_s)


def begin(root: Path, manifest: Manifest) -> None:
    """Leave a manifest in the inbox, as a committer does that dies then."""
    path = Path(inbox_path(str(root), manifest.writer, manifest.epoch))
    path.parent.mkdir(exist_ok=True)
    OsFiles().replace(str(path), manifest.encode())


def take_in(log: Log) -> None:
    """Append what is in the inbox, as the log's writer."""
    log.start_writing("identity", 1)
    log.commits.append_submitted()


def contents(root: Path) -> dict[tuple[str, int], list[bytes]]:
    """Return the payloads of every partition that has one."""
    log = open_log(root)
    found = {}
    try:
        for stream in log.snapshot().values():
            for topic in stream.topics.values():
                for number in range(1, topic.partitions + 1):
                    with PartitionFollower(log.partition_directory(topic, number), OsFiles()) as follower:
                        messages = [m for chunk in follower.read(follower.first_offset) for m in decode_polled(chunk)]
                    assert [m.offset for m in messages] == list(range(len(messages)))
                    if messages:
                        found[str(topic.name), number] = [m.payload or b"" for m in messages]
    finally:
        log.close()
    return found


def is_swept(root: Path) -> bool:
    """Return whether nothing staged and no manifest is left."""
    return not any(path.is_file() for name in (STAGED_NAME, INBOX_NAME) for path in (root / name).rglob("*"))
