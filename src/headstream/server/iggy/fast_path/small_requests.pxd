# The fields of small_requests.py for compiled code.

from headstream.server.iggy.fast_path.route_cache cimport PollRoute, SendRoute, RouteCache
from headstream.server.iggy.fast_path.traffic cimport Traffic
from headstream.log.partition.partition_end cimport PartitionEnd

cdef class SmallRequests:
    cdef object _server
    cdef object _session
    cdef Traffic _traffic
    cdef object _log
    cdef object _clock_us
    cdef dict _registered
    cdef bint _is_traced
    cdef long long _user_id
    cdef long long _generation
    cdef object _users
    cdef object _catalog
    cdef object _topics
    cdef bint _is_extended
    cdef long long _producer_id
    cdef long long _newest
    cdef RouteCache _sends
    cdef RouteCache _polls
    cpdef tuple answer(self, memoryview view, long long size)
    cdef object _find(self, memoryview view, long long code, long long at, long long end)
    cdef bint _is_valid(self)
    cdef bint _find_catalog(self)
    cdef bytes _send(self, memoryview view, long long at, long long end)
    cdef bytearray _append(self, memoryview view, long long at, long long end)
    cdef bint _has_traces(self, memoryview view, long long at, long long end)
    cdef long long _find_name_end(self, memoryview view, long long at, long long end) except -1
    cdef PartitionEnd _find_end(self, SendRoute route, long long partition)
    cdef object _find_sent(self, object kind, bytes payload)
    cdef bytearray _poll(self, memoryview view, long long at, long long end)
    cdef bytearray _take(self, PollRoute route, long long offset, long long count)
    cdef bytearray _read(self, PollRoute route, object topic, object locked, long long offset, long long count)
    cdef tuple _find_polled(self, bytes payload)
