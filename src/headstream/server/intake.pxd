# The fields of intake.py for compiled code.

from headstream.broker.commands.short_requests cimport ShortRequests
from headstream.broker.traffic cimport Traffic

cdef class Quiet:
    cdef object connection
    cdef object transport
    cdef object unsent_bytes
    cdef int descriptor
    cdef ShortRequests short
    cdef object response

cdef class Intake:
    cdef object _loop
    cdef bytearray _scratch
    cdef memoryview _view
    cdef Traffic _traffic
    cdef object _epoll
    cdef dict _quiet
    cdef list _answered
    cdef long long _trust
    cdef double _left_s
    cdef bint _is_alone
    cdef object _find(self, Py_ssize_t done)
    cpdef object end(self, Quiet quiet)
    cdef object _answer(self, Quiet quiet)
    cdef object _respond(self, Quiet quiet)
