"""Batches that are committed together and once: staged in files beside the log, appended by their commit (log/staging.py).

A part's file is gone on with by every batch of it: nothing is kept open between two, whatever becomes of who sends them.
Each batch says where in the file it lies, so that one that is sent again, its answer lost, lies there once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

from headstream.broker.commands.dispatch import Dispatcher, Handler
from headstream.broker.commands.offsets import check_partition
from headstream.broker.sessions import Session
from headstream.codec.batch.stamp import stamp
from headstream.errors import InvalidInputError
from headstream.log.staging import Chunk, Manifest, StagedPart, StagedWriter, unstage
from headstream.log.submission import commit_to, is_taken_up
from headstream.model.identifiers import TopicName
from headstream.model.topology import Limits
from headstream.wire.extensions.epochs import CommitEpoch, CommittedEpoch, GetEpoch, StageBatch, StagedBatch, UnstageParts
from headstream.wire.records import Command

__all__ = ["HANDLERS"]

_COMMIT_TIMEOUT_S: Final = 60.0
_PART: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}")
_MOST_EPOCH: Final = (1 << 63) - 1


def _check_names(writer: str, epoch: int, parts: set[str]) -> None:
    """Refuse what cannot name a file or a number of the catalog."""
    if writer in (".", "..") or len(writer) > 200 or not 0 <= epoch <= _MOST_EPOCH:
        raise InvalidInputError(f"writer {writer!r:.60}, epoch {epoch} cannot be kept", advice="Use 1 to 200 characters, 63 bits")
    for part in parts:
        if not _PART.fullmatch(part):
            raise InvalidInputError(f"{part!r} cannot name a part", advice="Use 1 to 100 letters, digits, hyphens, dots")


def stage_batch(server: Dispatcher, session: Session, command: StageBatch) -> StagedBatch:
    """Stage a batch; it is checked as if it were appended now."""
    place = server.places.topic(command.stream, command.topic)
    server.rights(session).send(place.stream.id, place.topic.id)
    check_partition(place, command.partition)
    _check_names(command.writer, command.epoch, {command.part})
    count = stamp(command.messages, 0, 0, bytes(16), place.topic.limits is Limits.WIDE).count
    log = server.broker.backing.writable_log()
    staged = StagedWriter(log.root, log.files, command.writer, command.epoch, command.part, position=command.position)
    try:
        staged.add(str(place.topic.name), command.partition, command.messages, count)
        if command.is_last:
            staged.sync()
    finally:
        chunks = staged.pause()
    (chunk,) = chunks
    return StagedBatch(command.part, chunk.topic, chunk.partition, chunk.size_bytes, chunk.count, chunk.crc32c)


def commit_epoch(server: Dispatcher, session: Session, command: CommitEpoch) -> CommittedEpoch:
    """Append all batches of an epoch, or nothing where it was committed before."""
    _check_names(command.writer, command.epoch, {batch.part for batch in command.batches})
    server.rights(session).send_somewhere()  # an epoch may be empty, and is its writer's last one nevertheless
    limits = _check_topics(server, session, command.batches)
    parts = tuple(
        StagedPart(StagedWriter.file_name(part), tuple(_chunk(batch) for batch in batches))
        for part, batches in groupby(command.batches, key=attrgetter("part"))
    )
    log = server.broker.backing.writable_log()
    manifest = Manifest(command.writer, command.epoch, server.broker.identity or "", limits, parts)
    commit_to(log, manifest, _COMMIT_TIMEOUT_S)
    return CommittedEpoch(_last_epoch(server, command.writer) or command.epoch)


def get_epoch(server: Dispatcher, session: Session, command: GetEpoch) -> CommittedEpoch | None:
    """Return the last epoch of a writer that was committed."""
    last = _last_epoch(server, command.writer)
    return None if last is None else CommittedEpoch(last)


def _check_topics(server: Dispatcher, session: Session, batches: Iterable[StagedBatch]) -> dict[str, str]:
    """Return the limits of the topics of batches, by name; refuse where one is not the session's to send to."""
    limits: dict[str, str] = {}
    for name in {batch.topic for batch in batches}:
        topic = TopicName.parse(name)
        place = server.places.topic(topic.stream, topic.topic)
        server.rights(session).send(place.stream.id, place.topic.id)
        limits[name] = place.topic.limits.value
    return limits


def unstage_parts(server: Dispatcher, session: Session, command: UnstageParts) -> None:
    """Remove what is not to be committed."""
    parts = {batch.part for batch in command.batches}
    _check_names(command.writer, command.epoch, parts)
    _check_topics(server, session, command.batches)
    log = server.broker.backing.writable_log()
    if not is_taken_up(log, command.writer, command.epoch):
        unstage(log.root, log.files, command.writer, command.epoch, map(StagedWriter.file_name, parts))


def _last_epoch(server: Dispatcher, writer: str) -> int | None:
    """Return the last epoch that is done with: one that is not done yet, or was refused, leaves the one before it."""
    record = server.broker.backing.log.commits.outcome(writer)
    if record is None:
        return None
    last = record.epoch if record.state == "done" else record.epoch - 1
    return None if last < 0 else last


def _chunk(batch: StagedBatch) -> Chunk:
    return Chunk(batch.topic, batch.partition, batch.size_bytes, batch.count, batch.crc32c)


HANDLERS: Final[dict[type[Command[Any]], Handler]] = {
    StageBatch: stage_batch,
    CommitEpoch: commit_epoch,
    GetEpoch: get_epoch,
    UnstageParts: unstage_parts,
}
