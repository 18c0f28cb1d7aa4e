# The function of siphash.py that other kernels call.

cdef void siphash128(const unsigned char *p, long long at, long long size, unsigned long long seed_low,
                     unsigned long long seed_high, unsigned char *out) noexcept nogil
