"""Mirror: copies topics from one log to another log, each message exactly once, even if the mirror is killed.

hops     the header hs.mirror, which lists the logs from which a message was copied
plan     the topics that a mirror copies and creates, and their differences in the destination
mirror   Mirror: one run
target   one topic of the destination: its producer, its states, and the messages that it already contains
metrics  the metrics of a run

    from headstream.mirror import Mirror, MirrorOptions

    with hs.connect(source) as one, hs.connect(destination) as other:
        Mirror(one, other, MirrorOptions(topics=["shop/*"], once=True)).run()
"""

from __future__ import annotations

from headstream.mirror.mirror import Mirror, MirrorOptions, MirrorStats
from headstream.mirror.plan import MirrorPlan, TopicPlan

__all__ = ["Mirror", "MirrorOptions", "MirrorPlan", "MirrorStats", "TopicPlan"]
