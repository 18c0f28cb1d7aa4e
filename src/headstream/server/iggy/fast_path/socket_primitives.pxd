# The C side of sockets; the Python side is uncompiled_socket_primitives.py.

cdef extern from "socket_primitives.h":
    long long receive "hs_receive" (int descriptor, unsigned char *p, long long size)
    long long send "hs_send" (int descriptor, const unsigned char *p, long long size)
