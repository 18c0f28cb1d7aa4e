"""Lists the delivery journals of a topic: groups, and messages that retention must keep."""

from __future__ import annotations

from collections.abc import Iterator

from headstream.core.model.polling import OffsetOwner
from headstream.log.partition.delivery_journal import JOURNAL_SUFFIX, DeliveryJournal, read_owner
from headstream.log.partition.offsets import OffsetStore
from headstream.log.system.files import Files


def list_journals(offsets: OffsetStore, files: Files) -> Iterator[tuple[OffsetOwner, int]]:
    """Yield the group and the partition of each journal."""
    for name in files.list_names(offsets.directory) or []:
        number = name.removesuffix(JOURNAL_SUFFIX).rpartition("-")[2]
        is_journal = name.endswith(JOURNAL_SUFFIX) and number.isdecimal()
        group = read_owner(f"{offsets.directory}/{name}", files) if is_journal else None
        if group is not None:
            yield OffsetOwner.group(group), int(number)


def find_unconfirmed(offsets: OffsetStore, files: Files, partition: int, generation: int) -> dict[int, str]:
    """Return the offsets of permanently failed messages without a confirmed dead letter, with the group's name."""
    found: dict[int, str] = {}
    for owner, number in list_journals(offsets, files):
        if number == partition:
            journal = DeliveryJournal(offsets.directory, files, owner, partition, generation)
            state = journal.load(offsets.committed_at(owner, partition))
            found |= {delivery.offset: owner.name for delivery in state.failing.values() if delivery.reason}
    return found
