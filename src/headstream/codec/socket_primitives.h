/* Reading from and writing to sockets that do not block, for compiled code; the Python side is in uncompiled_sockets.py. */
#ifndef HEADSTREAM_SOCKET_PRIMITIVES_H
#define HEADSTREAM_SOCKET_PRIMITIVES_H

#ifndef _WIN32
#include <errno.h>
#include <sys/socket.h>

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif
#endif

/* Read what has come, at most `size` bytes: their count; 0 if nothing has; -1 if nothing comes any more. */
static inline long long hs_receive(int descriptor, unsigned char *p, long long size) {
#ifdef _WIN32
    return -1; /* there is no epoll: nothing comes this way */
#else
    ssize_t count;
    do count = recv(descriptor, p, (size_t)size, MSG_DONTWAIT);
    while (count < 0 && errno == EINTR);
    if (count > 0) return count;
    return count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? 0 : -1;
#endif
}

/* Write as much as the system takes now: how many bytes; 0 too if the connection is broken, which reading tells. */
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
