# The functions of stamp.py that other compiled modules call.

cdef long long scan_sent(const unsigned char *p, long long size, bint wide, unsigned char *notes) noexcept nogil
cdef unsigned int store_sent(const unsigned char *p, long long size, unsigned char *q, unsigned long long offset,
                             unsigned long long timestamp_us, unsigned long long seed_low,
                             unsigned long long seed_high) noexcept nogil
