# The fields of partition_end.py for compiled code.

cdef class PartitionEnd:
    cdef readonly str directory
    cdef public long long base_offset
    cdef public long long end_offset
    cdef public long long byte_position
    cdef public long long entries
    cdef public long long timestamp_us
    cdef public long long written
    cdef public bint is_doubtful
    cdef public bint is_announced
    cdef bint _is_open
    cdef bint _wide
    cdef int _data
    cdef int _index
    cdef long long _data_until
    cdef long long _index_until
    cdef unsigned long long _seed_low
    cdef unsigned long long _seed_high
    cpdef advance(self, long long size_bytes, long long count, long long time_us)
    cpdef long long append(self, memoryview view, long long at, long long until, long long timestamp_us) except? -2
    cdef bint _write(self, unsigned char *stored, long long size, long long count, long long time_us, unsigned int crc) noexcept
