# The functions of kinds.py that decoding.py calls.

cdef long long list_entries(const unsigned char *p, long long at, long long end, unsigned char *entries) noexcept nogil
cdef int kind_of(long long j, long long begin, long long end, const unsigned char *key_offsets, const unsigned char *keys,
                 unsigned char *roles, const unsigned char *text, unsigned char *entries, long long count,
                 const unsigned char *names) noexcept nogil
