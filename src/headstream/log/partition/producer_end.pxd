# The fields of producer_end.py for compiled code.

cdef class ProducerEnd:
    cdef readonly long long producer_id
    cdef readonly long long slot
    cdef readonly bytearray records
    cdef public long long batch_number
    cdef readonly long long epoch
    cdef readonly long long sequence
    cdef readonly long long timestamp_us
    cdef public long long resumes_at
    cpdef long long write(self, long long epoch, long long sequence, long long count, long long first_offset,
                          long long stored, long long timestamp_us) except -1
    cpdef note(self)
    cpdef refresh(self)
    cpdef bint follows(self, long long epoch, long long sequence) except -1
    cpdef tuple find(self, long long sequence, long long count)

cpdef bint is_record(memoryview view, long long at) except -1
