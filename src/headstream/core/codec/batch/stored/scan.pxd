# The functions of scan.py that other kernels call.

cdef long long end_of(const unsigned char *p, long long at, long long size, unsigned char *notes) noexcept nogil
cdef unsigned int masked(const unsigned char *p, long long at, long long end, unsigned char *scratch,
                         unsigned int crc) noexcept nogil
cdef long long take_at(const unsigned char *p, long long at, long long size, long long count, long long size_bytes,
                       unsigned char *notes) noexcept nogil
