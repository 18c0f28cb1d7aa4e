"""Journals: caches a log's most recently used delivery journals and lease tables for all clients in this process."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from headstream.core.model.deliveries import RetryOrder
from headstream.core.model.polling import OffsetOwner
from headstream.log.catalog.records import TopicRecord
from headstream.log.log import Log
from headstream.log.partition.delivery_journal import DeliveryJournal
from headstream.log.partition.lease_table import LeaseTable
from headstream.log.partition.stored_journals import list_journals

_MAX_OPEN: Final = 1024
"""Maximum number of journals in memory; other journals are read from their files."""


class OpenJournal:
    """The journal of one group in one partition, and the in-memory state of the leases; the caller must hold the group's lock.

    Attributes:
        table: The leases that this process has granted or read; None before the first lease.
        idle: If the last request could lease no message, the partition's end and the request's order; else None. Requests with
            this order read nothing until the partition grows, or until the next lease or delay ends.
    """

    def __init__(self, journal: DeliveryJournal) -> None:
        self.journal = journal
        self.table: LeaseTable | None = None
        self.base = -1
        self.idle: tuple[int, RetryOrder] | None = None

    def refresh_table(self, base: int, now_us: int, steady_us: int) -> LeaseTable:
        """Return the lease table; create a new table if another process or a commit without leases changed the state."""
        state = self.journal.state
        if self.table is None or self.table.state is not state or self.base != base:
            self.table = LeaseTable(state, now_us, steady_us)
            self.base, self.idle = base, None
        return self.table


class Journals:
    """The journals of one log; thread-safe."""

    def __init__(self, log: Log) -> None:
        self._log = weakref.ref(log)
        self._lock = threading.Lock()
        self._has_stored = False
        self._journals: OrderedDict[tuple[str, OffsetOwner, int, int], OpenJournal] = OrderedDict()

    def find(self, record: TopicRecord, owner: OffsetOwner, partition: int) -> OpenJournal:
        """Return a journal."""
        log = self._log()
        assert log is not None
        key = record.identity, owner, partition, record.generation(partition)
        with self._lock:
            found = self._journals.get(key)
            if found is None:
                found = self._journals[key] = OpenJournal(DeliveryJournal(log.offsets(record).directory, log.files, *key[1:]))
                if len(self._journals) > _MAX_OPEN:
                    self._journals.popitem(last=False)
            self._journals.move_to_end(key)
            return found

    def open_stored(self, records: Iterable[TopicRecord]) -> None:
        """Load the journals of earlier processes once, up to the limit of journals in memory."""
        log = self._log()
        with self._lock:
            if log is None or self._has_stored:
                return
            self._has_stored = True
        for record in records:
            for owner, partition in list_journals(log.offsets(record), log.files):
                if len(self._journals) >= _MAX_OPEN:
                    return
                if partition <= record.partitions:
                    self.find(record, owner, partition)

    def in_memory(self) -> list[tuple[str, OffsetOwner, int]]:
        """Return topic identity, group and partition of each journal in memory."""
        with self._lock:
            return [key[:3] for key in self._journals]


_OPEN: Final[weakref.WeakKeyDictionary[Log, Journals]] = weakref.WeakKeyDictionary()


def journals_of(log: Log) -> Journals:
    """Return the journals of a log."""
    return _OPEN.setdefault(log, Journals(log))
