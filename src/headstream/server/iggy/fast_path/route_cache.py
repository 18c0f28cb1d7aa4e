"""RouteCache: caches topics and partitions of earlier requests by the bytes that named them; compiled."""

from __future__ import annotations

from typing import Any, Final

from headstream.broker.commands.topic_lookup import FoundTopic
from headstream.log.partition.readers import LockedFollower

try:
    import cython
except ImportError:
    from headstream.core.codec import uncompiled as cython  # type: ignore[no-redef]

if not cython.compiled:
    from headstream.core.codec import uncompiled_primitives as c
    from headstream.log.partition.partition_end import PartitionEnd
else:
    from cython.cimports.headstream.core.codec import primitives as c
    from cython.cimports.headstream.log.partition.partition_end import PartitionEnd

_MAX_ROUTES: Final = 1024
"""Maximum routes cached per connection and kind; a full cache is cleared."""


class CachedRoute:
    """The result of a lookup for requests that start with the bytes `name`: the topic; for polls, also consumer and partition."""

    def __init__(self, name: bytes) -> None:
        self.name = memoryview(name)


class SendRoute(CachedRoute):
    """The partitions for sends to a topic; if the route has no topic, sends take the general path."""

    def __init__(self, name: bytes, place: FoundTopic | None) -> None:
        super().__init__(name)
        self.topic = None if place is None else place.topic
        self.stream_id = 0 if place is None else place.stream.id
        self.partitions = 0 if place is None else place.topic.partitions
        self.ends: dict[int, PartitionEnd] = {}
        self.partition = 0
        self.end: PartitionEnd | None = None


class PollRoute(CachedRoute):
    """The partition for polls of a consumer; if the route has no topic, polls take the general path."""

    def __init__(self, name: bytes, place: FoundTopic | None, partition: int) -> None:
        super().__init__(name)
        self.topic = None if place is None else place.topic
        self.partition = partition
        self.locked: LockedFollower | None = None
        self.end: PartitionEnd | None = None
        self.transactions = -1
        self.is_available = False


class RouteCache:
    """The cached routes of one kind; consecutive requests usually use the same route."""

    def __init__(self) -> None:
        self._known: dict[bytes, CachedRoute] = {}
        self._last: CachedRoute | None = None

    def find(self, view: memoryview, at: cython.longlong, end: cython.longlong) -> Any:
        """Return the route named by the bytes from `at` to `end`, or None."""
        last = self._last
        size: cython.longlong = end - at
        if last is not None and size == last.name.nbytes and c.equal(c.readable(view), at, c.readable(last.name), 0, size):
            return last
        found = self._known.get(bytes(view[at:end]))
        if found is not None:
            self._last = found
        return found

    def add(self, route: CachedRoute) -> CachedRoute:
        """Cache and return a route."""
        if len(self._known) >= _MAX_ROUTES:
            self._known.clear()
        self._known[bytes(route.name)] = route
        self._last = route
        return route

    def clear(self) -> None:
        """Remove all routes."""
        self._known.clear()
        self._last = None
