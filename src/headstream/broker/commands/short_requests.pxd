# The fields of short_requests.py for compiled code.

from headstream.broker.traffic cimport Traffic
from headstream.log.partition_end cimport PartitionEnd

cdef class Way:
    cdef memoryview name

cdef class SendWay(Way):
    cdef object topic
    cdef long long partitions
    cdef dict ends
    cdef long long partition
    cdef PartitionEnd end

cdef class PollWay(Way):
    cdef object topic
    cdef long long partition
    cdef object lent
    cdef PartitionEnd end
    cdef long long transactions
    cdef bint is_available

cdef class Ways:
    cdef dict _known
    cdef Way _last
    cdef object find(self, memoryview view, long long at, long long end)
    cdef object keep(self, Way way)
    cdef object forget(self)

cdef class ShortRequests:
    cdef object _server
    cdef object _session
    cdef Traffic _traffic
    cdef object _log
    cdef object _clock_us
    cdef dict _bells
    cdef long long _user_id
    cdef long long _generation
    cdef object _users
    cdef object _catalog
    cdef object _topics
    cdef bint _is_extended
    cdef Ways _sends
    cdef Ways _polls
    cpdef tuple answer(self, memoryview view, long long size)
    cdef object _find(self, memoryview view, long long code, long long at, long long end)
    cdef bint _is_valid(self)
    cdef bint _begin_anew(self)
    cdef bytes _send(self, memoryview view, long long at, long long end)
    cdef object _find_sent(self, bytes payload)
    cdef bytearray _poll(self, memoryview view, long long at, long long end)
    cdef bytearray _read(self, PollWay way, object topic, object lent, long long offset, long long count)
    cdef tuple _find_polled(self, bytes payload)
