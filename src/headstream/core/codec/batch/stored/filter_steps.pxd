# The functions of filter_steps.py that other kernels call.

cdef int order_of(const unsigned char *p, const unsigned char *q, unsigned char *v, long long a, long long b) noexcept nogil
cdef int run_steps(const unsigned char *p, const unsigned char *q, unsigned char *v, long long stack, long long steps,
                   long long count) noexcept nogil
