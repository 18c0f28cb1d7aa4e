"""Checks of a staged commit before its intent is recorded: once they pass, all of it can be appended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headstream.core.model.identifiers import TopicName
from headstream.core.model.topology import Limits
from headstream.errors import CorruptLogError, LimitError, NotFoundError, PartitionNotFoundError, TopicNotFoundError
from headstream.log.catalog.catalog import TopicRecord
from headstream.log.partition.compacted_input import check_keys
from headstream.log.staged.staging import Manifest, epoch_directory, read_chunk

if TYPE_CHECKING:
    from headstream.log.log import Log

__all__ = ["find_topics"]


def find_topics(log: Log, manifest: Manifest) -> dict[str, TopicRecord]:
    """Return the topics of a manifest by name, after checking that all of it can be appended.

    Args:
        log: The log.
        manifest: The manifest.

    Raises:
        NotFoundError: a topic or partition is missing, or the manifest is of another log.
        CorruptLogError: a staged file is missing or damaged.
        LimitError: the topic does not take such messages.
        StorageError: the system refused to read a staged file.
    """
    if manifest.identity != log.identity:
        raise NotFoundError(f"it belongs to another log, {manifest.identity}", where=log.root)
    topics: dict[str, TopicRecord] = {}
    for part in manifest.parts:
        path = f"{epoch_directory(log.root, manifest.writer, manifest.epoch)}/{part.name}"
        file = log.files.open_read(path)
        size_bytes = 0
        if file is not None:
            size_bytes = file.size_bytes()
            file.close()
        if size_bytes < sum(chunk.size_bytes for chunk in part.chunks):
            raise CorruptLogError("a staged file is missing or cut short", where=path, advice="Send the batch again")
        position = 0
        for chunk in part.chunks:
            topic = topics.get(chunk.topic)
            if topic is None:
                topic = topics[chunk.topic] = _find_topic(log, chunk.topic)
            if not 1 <= chunk.partition <= topic.partitions:
                raise PartitionNotFoundError(
                    f"topic {chunk.topic!r} has no partition {chunk.partition}",
                    advice=f"Its partitions are 1 to {topic.partitions}",
                )
            if topic.options.compaction_delay_us is not None:
                check_keys(read_chunk(path, log.files, position, chunk), chunk.topic)
            position += chunk.size_bytes
    for name, limits in manifest.limits.items():
        if limits == Limits.WIDE.value and topics[name].limits is Limits.IGGY:
            raise LimitError(f"topic {name!r} was recreated, with limits iggy", advice="Send the batch again")
    return topics


def _find_topic(log: Log, name: str) -> TopicRecord:
    parsed = TopicName.parse(name)
    stream = log.snapshot().get(parsed.stream)
    topic = None if stream is None else stream.topics.get(parsed.topic)
    if topic is None:
        raise TopicNotFoundError(f"topic {name!r} no longer exists", where=log.root, advice="Create it first")
    return topic
