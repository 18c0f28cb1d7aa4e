"""Administration: what changes a topic that is there: purge, partitions more or fewer, what it keeps.

    purge        a new number, and so new directories, in one transaction; then the old directories go
    partitions   added behind the last one, deleted from the last one on
    retention    said here, done by retention.py

A topic's number is its identity: whoever follows a purged topic's old directory, in any process, finds it gone, and a
Spark checkpoint finds another number. The catalog's transaction is the moment of each change. What a crash leaves
after it is a directory that nothing names: a purged one is never used again, a partition's is emptied before it is.
"""

from __future__ import annotations

from headstream.errors import InvalidOptionError
from headstream.log.catalog import TopicRecord
from headstream.log.log import Log
from headstream.model.topology import MAX_PARTITIONS
from headstream.segments.layout import OFFSETS_NAME, topic_directory

__all__ = ["add_partitions", "delete_partitions", "purge_topic", "set_retention"]


def purge_topic(log: Log, topic: TopicRecord, now_us: int) -> None:
    """Remove all messages of a topic and all offsets committed in it; the next message gets offset 0.

    Args:
        log: The log; this process is its writer.
        topic: The topic.
        now_us: The time, microseconds since 1970 UTC.
    """
    with log.changing() as catalog:
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
    """Add partitions to a topic, behind its last one.

    Args:
        log: The log; this process is its writer.
        topic: The topic.
        count: How many, 1 or more.
        now_us: The time, microseconds since 1970 UTC.

    Raises:
        InvalidOptionError: the topic would have more than 1000.
    """
    most = MAX_PARTITIONS - topic.partitions
    if not 1 <= count <= most:
        raise InvalidOptionError(
            f"{count} partitions cannot be added to {topic.partitions}", where=str(topic.name), advice=f"Add 1 to {most}"
        )
    numbers = range(topic.partitions + 1, topic.partitions + count + 1)
    offsets = log.offsets(topic)
    with log.changing() as catalog, catalog.transaction():
        catalog.insert_partitions(topic.number, numbers, now_us)
        for number in numbers:
            directory = log.partition_directory(topic, number)
            log.files.remove_directory(directory)  # one that was deleted, up to a crash
            log.files.make_directory(directory)
            for consumer in offsets.consumers():
                offsets.forget(consumer, number)
        log.files.sync_directory(topic_directory(log.root, topic.stream_number, topic.number))


def delete_partitions(log: Log, topic: TopicRecord, count: int) -> None:
    """Delete the highest numbered partitions of a topic, with their messages.

    Args:
        log: The log; this process is its writer.
        topic: The topic.
        count: How many; one at least stays.

    Raises:
        InvalidOptionError: none would stay.
    """
    most = topic.partitions - 1
    if not 1 <= count <= most:
        raise InvalidOptionError(
            f"{count} of {topic.partitions} partitions cannot be deleted",
            where=str(topic.name),
            advice=f"Delete 1 to {most}" if most else "A topic keeps one: purge it, or delete the topic",
        )
    first = topic.partitions - count + 1
    with log.changing() as catalog:
        with catalog.transaction():
            catalog.delete_partitions(topic.number, first)
        for number in range(topic.partitions, first - 1, -1):
            log.let_go(topic, number)
            log.files.remove_directory(log.partition_directory(topic, number))


def set_retention(log: Log, topic: TopicRecord, age_us: int | None, size_bytes: int | None) -> None:
    """Say how long and how much a topic keeps; None is without end.

    Args:
        log: The log; this process is its writer.
        topic: The topic.
        age_us: Messages older than this may go, microseconds.
        size_bytes: With more than this, the oldest messages may go.
    """
    for value, name in ((age_us, "retention_us"), (size_bytes, "retention_bytes")):
        if value is not None and not 1 <= value < 1 << 63:
            raise InvalidOptionError(f"{name} is {value}", where=str(topic.name), advice="Use 1 or more, or None for ever")
    with log.changing() as catalog, catalog.transaction():
        catalog.set_retention(topic.number, age_us, size_bytes)
