# The function of roles.py that decoding.py calls.

cdef long long find_roles(long long begin, long long end, const unsigned char *key_offsets, const unsigned char *keys,
                        const unsigned char *value_offsets, const unsigned char *values, const unsigned char *validity,
                        bint some_null, bint strict, unsigned char *roles) noexcept nogil
