# The functions of variant.py that other kernels call.

cdef long long encode_object(const unsigned char *p, const unsigned char *entries, long long count,
                             unsigned char *q, long long to) noexcept nogil
cdef long long encode_keys(const unsigned char *p, const unsigned char *entries, long long count,
                           unsigned char *q, long long to) noexcept nogil
cdef long long encode_value(int kind, const unsigned char *p, long long at, long long size,
                            unsigned char *q, long long to) noexcept nogil
