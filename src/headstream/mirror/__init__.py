"""Mirror: copies topics from any log to any other, each message once, also after being killed.

hops     the header hs.mirror: the origins of a message
runs     sets of offsets, of messages in a destination
plan     the topics that a mirror creates, and the differences
mirror   Mirror: one run
target   the destination's side of a run: producers, states, and the messages it already contains
metrics  its numbers, for a collector

    from headstream.mirror import Mirror, MirrorOptions

    with hs.connect(source) as one, hs.connect(destination) as other:
        Mirror(one, other, MirrorOptions(topics=["shop/*"], once=True)).run()
"""

from __future__ import annotations

from headstream.mirror.mirror import Mirror, MirrorOptions, MirrorStats
from headstream.mirror.plan import MirrorPlan, TopicPlan

__all__ = ["Mirror", "MirrorOptions", "MirrorPlan", "MirrorStats", "TopicPlan"]
