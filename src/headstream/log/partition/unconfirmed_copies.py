"""Finds the messages that a group has given up and whose copy in the dead letter is not confirmed: retention keeps them."""

from __future__ import annotations

from headstream.log.partition.delivery_journal import DeliveryJournal, read_owner
from headstream.log.partition.offsets import OffsetStore
from headstream.log.system.files import Files
from headstream.model.polling import OffsetOwner

__all__ = ["find_unconfirmed"]


def find_unconfirmed(offsets: OffsetStore, files: Files, partition: int, generation: int) -> dict[int, str]:
    """Return the offset of each such message of a partition, with the name of a group.

    Args:
        offsets: The topic's consumer offsets, which have the journals beside them.
        files: The file system.
        partition: The partition's number.
        generation: The partition's generation.
    """
    found: dict[int, str] = {}
    for name in files.list_names(offsets.directory) or []:
        group = read_owner(f"{offsets.directory}/{name}", files, partition)
        if group is not None:
            owner = OffsetOwner.group(group)
            state = DeliveryJournal(offsets.directory, files, owner, partition, generation).load(
                offsets.committed_at(owner, partition)
            )
            found |= {delivery.offset: group for delivery in state.failing.values() if delivery.reason}
    return found
