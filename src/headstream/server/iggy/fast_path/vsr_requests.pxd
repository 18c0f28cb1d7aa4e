# The fields of vsr_requests.py for compiled code.

from headstream.server.iggy.fast_path.small_requests cimport SmallRequests

cdef class VsrRequests(SmallRequests):
    cdef object _responder
    cdef set _empty_polls
    cdef long long _number
    cpdef tuple answer(self, memoryview view, long long size)
    cdef object _answer_frame(self, memoryview view, long long at, long long end, long long operation)
    cdef bytearray _with_head(self, memoryview view, long long at, bytearray reply)
    cdef bytearray _send_batch(self, memoryview view, long long at, long long end)
    cdef bytearray _poll_batches(self, memoryview view, long long at, long long end)
