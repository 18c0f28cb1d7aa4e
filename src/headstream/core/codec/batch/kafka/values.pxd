# The functions of values.py that other kernels for Kafka's headers call.

cdef int kind_code(const unsigned char *p, long long at, long long size, const unsigned char *names) noexcept nogil
cdef long long write_kind(int kind, const unsigned char *names, unsigned char *q, long long to) noexcept nogil
cdef long long read_text(int kind, const unsigned char *p, long long at, long long size,
                         unsigned char *q, long long to) noexcept nogil
cdef long long write_text(int kind, const unsigned char *p, long long at, long long size,
                          unsigned char *q, long long to) noexcept nogil
