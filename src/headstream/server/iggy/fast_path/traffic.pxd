# The fields of traffic.py for compiled code.

cdef class CommandTraffic:
    cdef readonly long long code
    cdef readonly long long done
    cdef readonly dict refused
    cdef readonly list counts
    cdef readonly double seconds
    cdef object answered(self, long long status, double seconds)

cdef class Traffic:
    cdef readonly str transport
    cdef public long long connections
    cdef public long long refused_connections
    cdef public long long received_bytes
    cdef public long long sent_bytes
    cdef readonly dict commands
    cpdef object answered(self, long long code, long long status, double seconds)
