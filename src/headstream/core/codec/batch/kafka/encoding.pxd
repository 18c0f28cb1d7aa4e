# The functions of encoding.py that batches.py calls.

cdef bint encode_row(const unsigned char *p, long long at, long long end, const unsigned char *names, unsigned char *entries,
                     unsigned char *key_offsets, unsigned char *keys, unsigned char *value_offsets, unsigned char *values,
                     unsigned char *validity, unsigned char *notes) noexcept nogil
