# The fields of traffic.py for compiled code.

cdef class Traffic:
    cdef readonly str transport
    cdef public long long connections
    cdef public long long refused_connections
    cdef public long long received_bytes
    cdef public long long sent_bytes
    cdef readonly dict requests
    cdef readonly dict durations
    cdef readonly dict seconds
    cpdef object answered(self, long long code, long long status, double seconds)
