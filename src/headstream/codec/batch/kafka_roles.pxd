# What kafka_decoding.py calls of kafka_roles.py.

cdef long long sort_out(long long begin, long long end, const unsigned char *key_offsets, const unsigned char *keys,
                        const unsigned char *value_offsets, const unsigned char *values, const unsigned char *validity,
                        bint some_null, bint strict, unsigned char *roles) noexcept nogil
