# C declarations for file_primitives.h; the Python equivalent is uncompiled_file_primitives.py.

cdef extern from "file_primitives.h" nogil:
    bint write_at "hs_write_at" (int descriptor, const unsigned char *p, long long size, long long position)
