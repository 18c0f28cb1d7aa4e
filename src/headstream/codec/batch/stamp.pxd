# What other compiled modules call of stamp.py.

cdef long long check_sent(const unsigned char *p, long long size, bint wide, unsigned char *notes) noexcept nogil
cdef unsigned int store_sent(const unsigned char *p, long long size, unsigned char *q, unsigned long long offset,
                             unsigned long long timestamp_us, unsigned long long seed_low,
                             unsigned long long seed_high) noexcept nogil
