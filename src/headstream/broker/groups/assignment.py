"""assign(): which member of a group reads which partition. Pure.

    assign([7, 9], [1, 2, 3], {})                   {1: 7, 2: 9, 3: 7}     balanced, in turn
    assign([7, 9, 8], [1, 2, 3], {1: 7, 2: 9, 3: 7})  {1: 7, 2: 9, 3: 8}     owners keep partitions if balance allows

The counts of any two members differ by at most one; among balanced assignments this one moves the fewest partitions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = ["assign"]


def assign(members: Sequence[int], partitions: Sequence[int], owners: Mapping[int, int]) -> dict[int, int]:
    """Return partition -> member; empty without members.

    Args:
        members: Ids, in the order they joined.
        partitions: Numbers, ascending.
        owners: Partition -> its current owner, if any.
    """
    if not members:
        return {}
    held: dict[int, list[int]] = {member: [] for member in members}
    for partition in partitions:
        owner = owners.get(partition)
        if owner in held:
            held[owner].append(partition)
    least, extra = divmod(len(partitions), len(members))
    by_count = sorted(members, key=lambda member: -len(held[member]))  # stable: the member that joined first wins a tie
    quotas = {member: least + (i < extra) for i, member in enumerate(by_count)}
    result = {partition: member for member in members for partition in held[member][: quotas[member]]}
    rooms = {member: quotas[member] - min(len(held[member]), quotas[member]) for member in members}
    free = [partition for partition in partitions if partition not in result]
    while free:
        for member in members:
            if rooms[member] and free:
                rooms[member] -= 1
                result[free.pop(0)] = member
    return dict(sorted(result.items()))
