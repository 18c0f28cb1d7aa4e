/* Reads and writes of non-blocking sockets for compiled code; the Python side is uncompiled_socket_primitives.py. */
#ifndef HEADSTREAM_SOCKET_PRIMITIVES_H
#define HEADSTREAM_SOCKET_PRIMITIVES_H

#ifndef _WIN32
#include <errno.h>
#include <sys/socket.h>

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif
#endif

/* Read at most `size` received bytes; return their count, 0 if there are none, -1 at the end of the stream or on an error. */
static inline long long hs_receive(int descriptor, unsigned char *p, long long size) {
#ifdef _WIN32
    return -1; /* never called: Windows has no epoll */
#else
    ssize_t count;
    do count = recv(descriptor, p, (size_t)size, MSG_DONTWAIT);
    while (count < 0 && errno == EINTR);
    if (count > 0) return count;
    return count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? 0 : -1;
#endif
}

/* Write as many bytes as the socket accepts; return their count, also 0 on an error, which reading reports. */
static inline long long hs_send(int descriptor, const unsigned char *p, long long size) {
#ifdef _WIN32
    return 0;
#else
    ssize_t count;
    do count = send(descriptor, p, (size_t)size, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (count < 0 && errno == EINTR);
    return count < 0 ? 0 : count;
#endif
}

#endif
