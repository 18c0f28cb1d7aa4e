# The function of filter_steps.py that filter_scan.py calls.

cdef int run_steps(const unsigned char *p, const unsigned char *q, unsigned char *v, long long stack, long long steps,
                   long long count) noexcept nogil
