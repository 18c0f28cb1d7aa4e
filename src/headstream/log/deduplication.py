"""Deduplication: a message is dropped whose id one of the newest messages of its partition has.

    send -> stamped (and so checked) -> repeats dropped -> written -> the new ids noted

What is remembered is the ids of the newest messages as they are on the disk, whoever gave them. So nothing has to be
written for it, and a process that takes over reads back what the last one knew: at its first append, from the newest
messages. How much it reads is bounded, and with it how long that takes.
"""

from __future__ import annotations

from typing import Final

from headstream.codec.batch.repeats import drop_repeats, new_id_window, note_ids
from headstream.codec.buffer import BytesLike
from headstream.segments.files import ReadFiles
from headstream.segments.follower import PartitionFollower

__all__ = ["REREAD_BYTES", "RecentIds", "Repeats"]

REREAD_BYTES: Final = 1 << 30
"""So much of the newest messages, by whole segments, is read again at the first append: a second, where it is cached."""


class RecentIds:
    """The ids of a partition's newest messages.

    Args:
        directory: The partition's.
        files: Where it is.
        count: How many ids are remembered.
        seed: 8 random bytes or more.

    Raises:
        CorruptLogError: the newest messages cannot be read.
    """

    def __init__(self, directory: str, files: ReadFiles, count: int, seed: bytes) -> None:
        self.count = count
        self._window = new_id_window(count, seed)
        with PartitionFollower(directory, files) as follower:
            start = max(follower.find_last(count), follower.offset_before(REREAD_BYTES))
            for chunk in follower.read(start):
                note_ids(chunk, self._window)

    def drop_repeats(self, sent: BytesLike) -> bytearray | None:
        """Return a sent batch without the messages that are there, or None where all are new; nothing is noted.

        Args:
            sent: Whole sent messages, back to back.
        """
        return drop_repeats(sent, self._window)

    def note(self, stored: BytesLike) -> None:
        """Remember the ids of messages that have been written, in place of the oldest.

        Args:
            stored: Whole stored messages, back to back.
        """
        note_ids(stored, self._window)


class Repeats:
    """What a partition drops of the batches that are sent to it: messages whose ids it has, where its topic says so.

    Args:
        directory: The partition's.
        files: Where it is.
    """

    def __init__(self, directory: str, files: ReadFiles) -> None:
        self._directory = directory
        self._files = files
        self._recent: RecentIds | None = None

    def drop(self, sent: BytesLike, count: int | None, seed: bytes) -> bytearray | None:
        """Return a sent batch without the messages that are there, or None where all are to be stored.

        Args:
            sent: Whole sent messages, back to back.
            count: How many ids are remembered, as the topic says now; None looks for no repeats.
            seed: 8 random bytes or more.

        Raises:
            CorruptLogError: the newest messages cannot be read.
        """
        if count is None:
            self._recent = None
            return None
        if self._recent is None or self._recent.count != count:
            self._recent = RecentIds(self._directory, self._files, count, seed)
        return self._recent.drop_repeats(sent)

    def note(self, stored: BytesLike) -> None:
        """Remember the ids of messages that have been written; see RecentIds.note()."""
        if self._recent is not None:
            self._recent.note(stored)

    def forget(self) -> None:
        """Read the newest messages again when their ids are needed."""
        self._recent = None
