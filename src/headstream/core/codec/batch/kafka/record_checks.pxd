# The functions of record_checks.py that records.py calls.

cdef long long check_records(const unsigned char *p, long long size, long long count, long long base_ms,
                             unsigned char *notes) noexcept nogil
