# The fields of route_cache.py for compiled code.

from headstream.log.partition.partition_end cimport PartitionEnd

cdef class CachedRoute:
    cdef memoryview name

cdef class SendRoute(CachedRoute):
    cdef object topic
    cdef long long stream_id
    cdef long long partitions
    cdef dict ends
    cdef long long partition
    cdef PartitionEnd end

cdef class PollRoute(CachedRoute):
    cdef object topic
    cdef long long partition
    cdef object locked
    cdef PartitionEnd end
    cdef long long transactions
    cdef bint is_available

cdef class RouteCache:
    cdef dict _known
    cdef CachedRoute _last
    cdef object find(self, memoryview view, long long at, long long end)
    cdef object add(self, CachedRoute route)
    cdef object clear(self)
