# What avro_walk.py calls of avro_skip.py.

cdef long long fail(unsigned char *task, long long code, long long at, long long need, long long have) noexcept nogil
cdef long long skip_value(const unsigned char *p, long long at, long long end, unsigned char *task,
                          long long node) noexcept nogil
