# The function of whole_numbers.py that header_columns.py calls.

cdef bint write_whole(const unsigned char *p, int kind, long long at, long long size, int type_, long long width,
                      unsigned long long limit_high, unsigned long long limit_low,
                      unsigned char *data, long long to) noexcept nogil
