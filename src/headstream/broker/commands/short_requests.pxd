# The fields of short_requests.py for compiled code.

cdef class SendWay:
    cdef memoryview name
    cdef object topic
    cdef long long partitions
    cdef dict ends
    cdef dict directories

cdef class PollWay:
    cdef memoryview name
    cdef object topic
    cdef long long partition
    cdef object lent

cdef class ShortRequests:
    cdef object _server
    cdef object _session
    cdef object _answered
    cdef object _log
    cdef object _clock_us
    cdef object _rights
    cdef object _topics
    cdef bint _is_extended
    cdef dict _sends
    cdef dict _polls
    cdef SendWay _sent
    cdef PollWay _polled
    cdef bytes _find(self, memoryview view, long long code, long long at, long long end)
    cdef bint _is_valid(self)
    cdef bytes _send(self, memoryview view, long long at, long long end)
    cdef SendWay _send_way(self, memoryview view, long long at, long long named, long long end)
    cdef object _find_sent(self, bytes payload)
    cdef bytes _poll(self, memoryview view, long long at, long long end)
    cdef PollWay _poll_way(self, memoryview view, long long at, long long named, long long end)
    cdef tuple _find_polled(self, bytes payload)
