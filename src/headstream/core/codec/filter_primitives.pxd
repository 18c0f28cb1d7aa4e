# C declarations for filter_primitives.h; the Python equivalent is uncompiled_filter_primitives.py.

cdef extern from "filter_primitives.h" nogil:
    double load_double "hs_load_double" (const unsigned char *p, long long at)
    int compare_floats "hs_compare_floats" (double a, double b)
    int compare_whole_to_float "hs_compare_whole_to_float" (bint negative, unsigned long long low, unsigned long long high,
                                                            double b)
