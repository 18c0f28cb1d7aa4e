"""Administration: creates, changes and deletes streams and topics.

    create       in one transaction, directories first, so that each topic in the catalog has its directories
    delete       in one transaction, then the directories
    purge        a new number, and therefore new directories, in one transaction; then the old directories are removed
    partitions   added after the last partition, deleted from the last partition down
    update       name, options, labels; directories are named by number. retention.py and compaction.py apply the options
    groups       Iggy's clients create a group before they use it

A topic's number identifies the topic: a process that reads a purged topic finds the old directory missing, and a Spark checkpoint
finds a different number. The old name of a renamed stream or topic is unknown immediately, even to waiting polls. Each change
takes effect when the catalog's transaction commits. A crash after the commit leaves a directory without a catalog row: the
directory of a purged topic is never reused, and the directory of a partition is emptied before reuse.
"""

from __future__ import annotations

from headstream.core.model.topology import (
    NewTopic,
    TopicOptions,
    check_added_partitions,
    check_deleted_partitions,
    check_legal_hold,
)
from headstream.log.catalog.records import NO_LABELS, StreamRecord, TopicLabels, TopicRecord
from headstream.log.log import Log
from headstream.log.segments.layout import OFFSETS_NAME, topic_directory


def create_stream(log: Log, name: str, created_us: int, id_: int | None = None) -> None:
    """Add a stream, by default with the smallest free id. The caller holds log.administration; name and id must be free."""
    with log.changing() as catalog, catalog.transaction():
        catalog.insert_stream(name, created_us, id_)


def rename_stream(log: Log, stream: StreamRecord, name: str) -> None:
    """Rename a stream; the new name must be free."""
    with log.changing() as catalog:
        with catalog.transaction():
            catalog.rename_stream(stream.number, name)
        for topic in stream.topics.values():
            log.notify_topic(topic)


def create_topic(log: Log, new: NewTopic, created_us: int, labels: TopicLabels = NO_LABELS, id_: int | None = None) -> None:
    """Add a topic, and its stream if missing. The caller holds log.administration and has checked that the topic does not exist.
    If `id_` is None, the topic gets the smallest free id."""
    with log.changing() as catalog:
        known = catalog.snapshot().get(new.name.stream)
        touched: set[int] = set()
        with catalog.transaction(touched if known is not None else None):
            stream_number = catalog.insert_stream(new.name.stream, created_us) if known is None else known.number
            number = catalog.insert_topic(
                *(stream_number, new.name.topic, new.partitions, new.limits, created_us), *(new.fsync, new.options, labels, id_)
            )
            touched.add(number)
            # Before the commit, so that a topic in the catalog has its directories. Directories of a rolled-back creation are
            # empty, and are used by the next topic.
            directory = topic_directory(log.root, stream_number, number)
            log.files.make_directory(f"{directory}/{OFFSETS_NAME}")
            for partition in range(1, new.partitions + 1):
                log.files.make_directory(f"{directory}/{partition}")
            # Sync the parent directories, so that each topic in the catalog has its directory even after a power failure.
            while directory != log.root:
                log.files.sync_directory(directory)
                directory = directory.rpartition("/")[0]
            log.files.sync_directory(directory)


def delete_stream(log: Log, name: str) -> None:
    """Delete an existing stream with its topics; LegalHoldError if a topic is under legal hold: nothing is deleted."""
    with log.changing() as catalog:
        stream = catalog.snapshot()[name]
        for topic in stream.topics.values():
            check_legal_hold(topic.name, topic.options.legal_hold)
        with catalog.transaction():
            catalog.delete_stream(stream.number)
        for topic in stream.topics.values():
            log.drop(topic)


def delete_topic(log: Log, topic: TopicRecord) -> None:
    """Delete a topic with its messages and offsets; LegalHoldError if the topic is under legal hold."""
    with log.changing() as catalog:
        check_legal_hold(topic.name, topic.options.legal_hold)
        with catalog.transaction([topic.number]):
            catalog.delete_topic(topic.number)
        log.drop(topic)


def purge_topic(log: Log, topic: TopicRecord, now_us: int) -> None:
    """Remove all messages of a topic and all offsets committed in it; the next message gets offset 0.

    LegalHoldError if the topic is under legal hold.
    """
    with log.changing() as catalog:
        check_legal_hold(topic.name, topic.options.legal_hold)
        with catalog.transaction():
            number = catalog.renumber_topic(topic.number, now_us)
            directory = topic_directory(log.root, topic.stream_number, number)
            log.files.make_directory(f"{directory}/{OFFSETS_NAME}")
            for partition in range(1, topic.partitions + 1):
                log.files.make_directory(f"{directory}/{partition}")
            log.files.sync_directory(directory)
            log.files.sync_directory(directory.rpartition("/")[0])
        log.drop(topic)


def add_partitions(log: Log, topic: TopicRecord, count: int, now_us: int) -> None:
    """Add partitions after a topic's last partition; InvalidOptionError if the topic would have more than 1000 partitions."""
    check_added_partitions(topic.name, topic.partitions, count)
    numbers = range(topic.partitions + 1, topic.partitions + count + 1)
    offsets = log.offsets(topic)
    with log.changing() as catalog, catalog.transaction():
        catalog.insert_partitions(topic.number, numbers, now_us)
        for number in numbers:
            directory = log.partition_directory(topic, number)
            log.files.remove_directory(directory)  # left by a crash during a deletion
            log.files.make_directory(directory)
            offsets.forget_partition(number)
        log.files.sync_directory(topic_directory(log.root, topic.stream_number, topic.number))


def delete_partitions(log: Log, topic: TopicRecord, count: int, *, least: int = 1) -> None:
    """Delete the highest numbered partitions of a topic, with their messages.

    Raises:
        InvalidOptionError: fewer than `least` partitions would remain.
        LegalHoldError: the topic is under legal hold.
    """
    check_deleted_partitions(topic.name, topic.partitions, count, least=least)
    first = topic.partitions - count + 1
    with log.changing() as catalog:
        check_legal_hold(topic.name, topic.options.legal_hold)
        with catalog.transaction():
            catalog.delete_partitions(topic.number, first)
        for number in range(topic.partitions, first - 1, -1):
            log.drop_partitions(topic, [number], log.partition_directory(topic, number))


def update_topic(
    log: Log,
    topic: TopicRecord,
    *,
    name: str | None = None,
    options: TopicOptions | None = None,
    labels: TopicLabels | None = None,
) -> None:
    """Change a topic's name, all its options or its labels in one transaction; None leaves them unchanged."""
    with log.changing() as catalog:
        with catalog.transaction([topic.number]):
            catalog.update_topic(topic.number, name=name, options=options, labels=labels)
        if name is not None:
            log.notify_topic(topic)


def create_group(log: Log, topic: TopicRecord, name: str, id_: int | None = None) -> int:
    """Create a group and return its id; the caller has checked that name and id are free."""
    with log.changing() as catalog, catalog.transaction([topic.number]):
        return catalog.insert_group(topic.number, name, id_)


def delete_group(log: Log, topic: TopicRecord, id_: int) -> None:
    """Delete a group; the group's committed offsets are kept."""
    with log.changing() as catalog, catalog.transaction([topic.number]):
        catalog.delete_group(topic.number, id_)
