# The functions of varints.py that the kernels for Kafka's record batches call.

cdef long long read_varint(const unsigned char *p, long long at, long long end, unsigned char *found, long long slot) noexcept nogil
cdef long long varint_size(long long number) noexcept nogil
cdef long long write_varint(unsigned char *q, long long to, long long number) noexcept nogil
