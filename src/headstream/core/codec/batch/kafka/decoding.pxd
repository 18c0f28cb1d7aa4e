# The functions of decoding.py that records.py calls.

cdef long long decode_row(long long begin, long long end, const unsigned char *key_offsets, const unsigned char *keys,
                          const unsigned char *value_offsets, const unsigned char *values, const unsigned char *validity,
                          bint some_null, bint strict, const unsigned char *names, unsigned char *roles,
                          unsigned char *entries, unsigned char *q, long long to) noexcept nogil
