# The functions of filter_values.py that filter_scan.py calls.

cdef void set_fields(unsigned char *v, int fields, const unsigned char *p, long long at, long long end,
                     long long payload_size) noexcept nogil
cdef long long set_headers(unsigned char *v, const unsigned char *q, long long names, long long count,
                           const unsigned char *p, long long at, long long end, unsigned char *notes) noexcept nogil
