"""Epochs: batches that are committed together, exactly once. log/staged/staging.py stores the batches until the commit.

Each batch of a part is appended to the part's file, which is then closed, so that no state remains when a client disconnects. A
batch contains its position in the file, so a batch that is repeated after a lost reply is stored once.

A writer belongs to the user who first staged or committed with its name; other users cannot commit, unstage or read its epochs.
After this user is deleted, the writer belongs to the next user who uses it, so that a job can continue with a different user.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

from headstream.broker.accounts.sessions import Session
from headstream.broker.commands.dispatch import CommandRow, Dispatcher
from headstream.broker.commands.offsets import check_partition
from headstream.core.codec.batch.stored.stamp import check_sent
from headstream.core.model.identifiers import TopicName
from headstream.core.model.topology import Limits
from headstream.core.wire.extensions.epochs import CommitEpoch, CommittedEpoch, GetEpoch, StageBatch, StagedBatch, UnstageParts
from headstream.core.wire.records import Command
from headstream.core.wire.refusals import refusal
from headstream.core.wire.statuses import Status
from headstream.errors import InvalidInputError, LimitError
from headstream.log.catalog.commit_records import claim_writer, find_owner
from headstream.log.staged.staging import Chunk, Manifest, StagedPart, StagedWriter, check_epoch, unstage
from headstream.log.staged.submission import commit_to, is_submitted

_COMMIT_TIMEOUT_S: Final = 60.0
_PART: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}")
_MOST_WRITERS: Final = 10_000
"""Maximum number of writers per user. Each writer is a catalog row; each Spark query and each day's batch writes use a writer."""


def _check_names(writer: str, epoch: int, parts: set[str]) -> None:
    """Raise an error if a name is not a valid file name, or if the catalog cannot store the epoch number."""
    check_epoch(writer, epoch)
    for part in parts:
        if not _PART.fullmatch(part):
            raise InvalidInputError(f"{part!r:.60} is not a valid part name", advice="Use 1 to 100 letters, digits, - and .")


def _check_owner(server: Dispatcher, session: Session, writer: str) -> int | None:
    """Return the owner of a writer, or None; error (41) if the user has no right to send or another user owns the writer."""
    server.rights(session).send_somewhere()
    owner = find_owner(server.catalog, writer)
    if owner is None or owner not in server.users:
        return owner
    if owner != session.user_id:
        raise refusal(
            Status.UNAUTHORIZED,
            f"writer {writer!r} belongs to another user",
            advice="Use a writer of your own: a Spark query with a new checkpoint uses a new writer",
        )
    return owner


def _claim(server: Dispatcher, session: Session, writer: str) -> None:
    """Assign a writer without an owner to the session's user; error (41) if another user owns the writer."""
    owner = _check_owner(server, session, writer)
    if owner == session.user_id:
        return
    now_us = server.broker.backing.clock_us()
    if not claim_writer(server.catalog, writer, session.user_id, owner, _MOST_WRITERS, now_us):
        _check_owner(server, session, writer)  # a concurrent request may have claimed the writer
        if find_owner(server.catalog, writer) != session.user_id:
            raise LimitError(f"a user can own at most {_MOST_WRITERS} writers", advice="Use one writer for many epochs")


def stage_batch(server: Dispatcher, session: Session, command: StageBatch) -> StagedBatch:
    """Stage a batch, with the same checks as for an append."""
    target = server.lookup.topic(command.stream, command.topic)
    server.rights(session).send(target.stream.id, target.topic.id)
    check_partition(target, command.partition)
    _check_names(command.writer, command.epoch, {command.part})
    count = check_sent(command.messages, target.topic.limits is Limits.WIDE)
    _claim(server, session, command.writer)
    log = server.broker.backing.writable_log()
    staged = StagedWriter(log.root, log.files, command.writer, command.epoch, command.part, position=command.position)
    try:
        staged.add(str(target.topic.name), command.partition, command.messages, count)
        if command.is_last:
            staged.sync()
    finally:
        chunks = staged.pause()
    (chunk,) = chunks
    return StagedBatch(command.part, chunk.topic, chunk.partition, chunk.size_bytes, chunk.count, chunk.crc32c)


def commit_epoch(server: Dispatcher, session: Session, command: CommitEpoch) -> CommittedEpoch:
    """Append all batches of an epoch; no effect if the epoch is already committed, error if a later epoch is committed."""
    _check_names(command.writer, command.epoch, {batch.part for batch in command.batches})
    _check_owner(server, session, command.writer)  # an epoch without batches is also recorded as the writer's last epoch
    limits = _check_topics(server, session, command.batches)
    parts = tuple(
        StagedPart(
            StagedWriter.file_name(part),
            tuple(Chunk(batch.topic, batch.partition, batch.size_bytes, batch.count, batch.crc32c) for batch in batches),
        )
        for part, batches in groupby(command.batches, key=attrgetter("part"))
    )
    log = server.broker.backing.writable_log()
    manifest = Manifest(command.writer, command.epoch, server.broker.identity or "", limits, parts)
    _claim(server, session, command.writer)
    commit_to(log, manifest, _COMMIT_TIMEOUT_S)
    return CommittedEpoch(command.epoch)


def get_epoch(server: Dispatcher, session: Session, command: GetEpoch) -> CommittedEpoch | None:
    """Return the last committed epoch of a writer."""
    _check_owner(server, session, command.writer)
    last = _last_epoch(server, command.writer)
    return None if last is None else CommittedEpoch(last)


def _check_topics(server: Dispatcher, session: Session, batches: Iterable[StagedBatch]) -> dict[str, str]:
    """Return the limits of the batches' topics by name; error (41, 3007) if the user has no right to send to a topic."""
    limits: dict[str, str] = {}
    for name, partition in {(batch.topic, batch.partition) for batch in batches}:
        topic = TopicName.parse(name)
        target = server.lookup.topic(topic.stream, topic.topic)
        server.rights(session).send(target.stream.id, target.topic.id)
        check_partition(target, partition)
        limits[name] = target.topic.limits.value
    return limits


def unstage_parts(server: Dispatcher, session: Session, command: UnstageParts) -> None:
    """Remove staged batches."""
    parts = {batch.part for batch in command.batches}
    _check_names(command.writer, command.epoch, parts)
    _check_owner(server, session, command.writer)
    _check_topics(server, session, command.batches)
    log = server.broker.backing.writable_log()
    if not is_submitted(log, command.writer, command.epoch):
        unstage(log.root, log.files, command.writer, command.epoch, map(StagedWriter.file_name, parts))


def _last_epoch(server: Dispatcher, writer: str) -> int | None:
    """Return the last completed epoch; if the last epoch is pending or refused, the epoch before it."""
    record = server.broker.backing.log.commits.outcome(writer)
    if record is None:
        return None
    last = record.epoch if record.state == "done" else record.epoch - 1
    return None if last < 0 else last


ROWS: Final[dict[type[Command[Any]], CommandRow]] = {
    StageBatch: CommandRow(stage_batch, is_slow=True),
    CommitEpoch: CommandRow(commit_epoch, is_slow=True),
    GetEpoch: CommandRow(get_epoch),
    UnstageParts: CommandRow(unstage_parts, is_slow=True),
}
