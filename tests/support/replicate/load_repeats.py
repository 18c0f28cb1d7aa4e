"""Stretches of a log that a producer sends again: the same messages at other offsets and log times, perhaps loads later."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tests.support.replicate.load_tables import LOAD_GAP_US, MS_US, LogMessage

_GAPS = (0, 0, 1, 2, 5, 20)
_MOST_MESSAGES = 12


def repeated(log: list[LogMessage], random: Random, partitions: int) -> list[LogMessage]:
    """Return the repeats: of some stretches of a partition, in their order, in whichever partition.

    Rows of loads of the table without a key are left out: to it such a row is another row at another offset.

    Args:
        log: The messages.
        random: Draws the stretches, and how much later each is sent again.
        partitions: How many partitions the log has.
    """
    found = []
    for _ in range(random.randint(1, 4)):
        number = random.randrange(partitions)
        of_partition = sorted((message for message in log if message.partition == number), key=lambda message: message.logged_us)
        if not of_partition:
            continue
        first = random.randrange(len(of_partition))
        stretch = of_partition[first : first + random.randint(1, _MOST_MESSAGES)]
        later_us = random.choice(_GAPS) * LOAD_GAP_US + random.randint(1, 900) * MS_US
        into = random.randrange(partitions)
        for message in stretch:
            fact = message.fact
            if fact is None or (fact.load and fact.table == "n"):
                continue
            at_us = message.logged_us + later_us
            found.append(replace(message, partition=into, logged_us=at_us, fact=fact._replace(logged_us=at_us)))
    return found
