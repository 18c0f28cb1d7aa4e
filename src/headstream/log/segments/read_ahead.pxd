# The fields of read_ahead.py for compiled code.

cdef class ReadAhead:
    cdef bytes _cached
    cdef Py_ssize_t _at
    cdef long long _next_offset
    cpdef bytearray take_cached(self, long long offset, long long count, long long size_bytes, long long head)
    cpdef forget(self)
