# The C side of sockets; the Python side is in uncompiled_primitives.py.

cdef extern from "socket_primitives.h":
    long long receive "hs_receive" (int descriptor, unsigned char *p, long long size)
    long long send "hs_send" (int descriptor, const unsigned char *p, long long size)
