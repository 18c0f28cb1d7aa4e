# The fields of ahead.py for compiled code.

cdef class Ahead:
    cdef bytes _kept
    cdef Py_ssize_t _at
    cdef long long _next_offset
    cpdef bytearray take_kept(self, long long offset, long long count, long long size_bytes, long long head)
    cpdef forget(self)
