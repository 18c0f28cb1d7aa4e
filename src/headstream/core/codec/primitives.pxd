# C declarations for primitives.h; the Python equivalent is uncompiled_primitives.py.

cdef extern from "primitives.h" nogil:
    bint is_null "hs_is_null" (const unsigned char *validity, bint some_null, long long i)
    const unsigned char *after "hs_after" (const unsigned char *p, long long at)
    unsigned int load16 "hs_load16" (const unsigned char *p, long long at)
    unsigned int load32 "hs_load32" (const unsigned char *p, long long at)
    unsigned long long load64 "hs_load64" (const unsigned char *p, long long at)
    long long load64_signed "hs_load64_signed" (const unsigned char *p, long long at)
    void store16 "hs_store16" (unsigned char *p, long long at, unsigned int value)
    void store32 "hs_store32" (unsigned char *p, long long at, unsigned int value)
    void store64 "hs_store64" (unsigned char *p, long long at, unsigned long long value)
    void store64_signed "hs_store64_signed" (unsigned char *p, long long at, long long value)
    double load_float32 "hs_load_float32" (const unsigned char *p, long long at)
    void store_float32 "hs_store_float32" (unsigned char *p, long long at, double value)
    void store_float64 "hs_store_float64" (unsigned char *p, long long at, double value)
    void copy "hs_copy" (unsigned char *target, long long at, const unsigned char *source, long long start, long long size)
    void fill "hs_fill" (unsigned char *target, long long at, unsigned char value, long long size)
    bint equal "hs_equal" (const unsigned char *a, long long at, const unsigned char *b, long long start, long long size)
    int compare "hs_compare" (const unsigned char *a, long long at, long long a_size,
                              const unsigned char *b, long long start, long long b_size)
    long long utf8_size "hs_utf8_size" (const unsigned char *p, long long at, long long size)
    int kind_width "hs_kind_width" (int kind)
    long long note_fault "hs_note_fault" (unsigned char *notes, int code, long long at, long long need, long long have)
    void store_head "hs_store_head" (unsigned char *p, long long at, unsigned long long offset, unsigned char state,
                                     unsigned long long timestamp, unsigned long long id_low, unsigned long long id_high,
                                     unsigned int crc)
    void store_uuid "hs_store_uuid" (unsigned char *target, long long at, const unsigned char *source, long long start)
    long long store_decimal "hs_store_decimal" (unsigned char *target, long long at, const unsigned char *source,
                                                long long start, bint is_signed)
    int compare_keys "hs_compare_keys" (const unsigned char *p, long long a, long long b)
    void sort_keys "hs_sort_keys" (const unsigned char *p, unsigned char *entries, long long count)
    unsigned long long uuid_time "hs_uuid_time" (unsigned long long time_ms)
    unsigned long long mix64 "hs_mix64" (unsigned long long state)

cdef extern from "primitives.h":
    bytearray new_bytes "hs_new_bytes" (long long size)
    unsigned char *writable "hs_writable" (bytearray data)
    const unsigned char *readable "hs_readable" (memoryview view) except NULL
    unsigned char *changeable "hs_changeable" (memoryview view) except NULL
