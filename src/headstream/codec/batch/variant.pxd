# What columns.py calls of variant.py.

cdef long long encode_object(const unsigned char *p, const unsigned char *entries, long long count,
                             unsigned char *q, long long to) noexcept nogil
cdef long long encode_keys(const unsigned char *p, const unsigned char *entries, long long count,
                           unsigned char *q, long long to) noexcept nogil
