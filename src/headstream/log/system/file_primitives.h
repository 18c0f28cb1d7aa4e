/* Writing to files for compiled code that keeps the interpreter's lock meanwhile; the Python side is in uncompiled_primitives.py. */
#ifndef HEADSTREAM_FILE_PRIMITIVES_H
#define HEADSTREAM_FILE_PRIMITIVES_H

#ifndef _WIN32
#include <errno.h>
#include <unistd.h>
#endif

/* Write all of some bytes at a byte position of a file; return whether that was done. */
static inline int hs_write_at(int descriptor, const unsigned char *p, long long size, long long position) {
#ifdef _WIN32
    return 0; /* no such call: the caller uses the general path */
#else
    ssize_t done;
    do done = pwrite(descriptor, p, (size_t)size, (off_t)position);
    while (done < 0 && errno == EINTR);
    return done == size;
#endif
}

#endif
