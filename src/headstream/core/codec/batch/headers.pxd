# The functions of headers.py that other kernels call.

cdef long long check_block(const unsigned char *p, long long at, long long end, bint values, unsigned char *notes) noexcept nogil
cdef long long key_end(const unsigned char *p, long long at, long long end) noexcept nogil
cdef long long null_end(const unsigned char *p, long long at, long long end, long long payload_size) noexcept nogil
cdef long long list_keys(const unsigned char *p, long long at, long long end, unsigned char *entries) noexcept nogil
cdef long long keep_last(const unsigned char *p, unsigned char *entries, long long count) noexcept nogil
cdef long long check_value(const unsigned char *p, int kind, long long at, long long size, unsigned char *notes) noexcept nogil
cdef long long list_blocks(const unsigned char *p, long long size, bint values, unsigned char *blocks,
                           unsigned char *notes) noexcept nogil
