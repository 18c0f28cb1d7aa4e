# The fields of partition_end.py for compiled code.

from headstream.log.partition.producer_end cimport ProducerEnd

cdef class PartitionEnd:
    cdef readonly str directory
    cdef public long long base_offset
    cdef public long long end_offset
    cdef public long long byte_position
    cdef public long long entries
    cdef public long long timestamp_us
    cdef public long long written
    cdef public bint needs_recovery
    cdef public bint is_announced
    cdef bint _is_open
    cdef bint _wide
    cdef int _data
    cdef int _index
    cdef long long _data_until
    cdef long long _index_until
    cdef unsigned long long _seed_low
    cdef unsigned long long _seed_high
    cdef object _states
    cdef dict _producers
    cdef int _records
    cdef long long _records_until
    cdef bytearray _stored
    cdef bytearray _entry
    cdef bytearray _notes
    cdef object _guard
    cpdef advance(self, long long size_bytes, long long count, long long time_us)
    cpdef long long append(self, memoryview view, long long at, long long until, long long timestamp_us) except? -2
    cpdef tuple append_numbered(self, memoryview view, long long at, long long until, long long timestamp_us,
                                long long producer_id, long long epoch, long long sequence)
    cdef tuple _append_numbered(self, memoryview view, long long at, long long until, long long timestamp_us,
                                long long producer_id, long long epoch, long long sequence)
    cdef long long _append(self, memoryview view, long long at, long long until, long long timestamp_us,
                           ProducerEnd producer, long long sequence) except? -2
    cdef bint _has_slot_for_record(self, ProducerEnd producer) noexcept
    cdef bint _write_record(self, ProducerEnd producer, long long sequence, long long count, long long time_us) except -1
    cdef bint _write(self, unsigned char *stored, long long size, long long count, long long time_us, unsigned int crc) noexcept
