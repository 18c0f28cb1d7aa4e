# The fields of intake.py for compiled code.

from headstream.server.iggy.fast_path.small_requests cimport SmallRequests
from headstream.server.iggy.fast_path.traffic cimport Traffic

cdef class IdleConnection:
    cdef object connection
    cdef object transport
    cdef object unsent_bytes
    cdef int descriptor
    cdef SmallRequests short
    cdef object response

cdef class Intake:
    cdef object _loop
    cdef bytearray _scratch
    cdef memoryview _view
    cdef Traffic _traffic
    cdef object _wakeups
    cdef object _due
    cdef object _epoll
    cdef dict _idle
    cdef list _answered
    cdef long long _spin_credit
    cdef double _last_round_s
    cdef bint _is_single_core
    cdef object _find(self, Py_ssize_t done)
    cpdef object end(self, IdleConnection idle)
    cdef object _answer(self, IdleConnection idle)
    cdef object _respond(self, IdleConnection idle)
