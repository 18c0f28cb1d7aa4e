/* File writes for compiled code that holds the interpreter's lock; Python equivalent: uncompiled_file_primitives.py. */
#ifndef HEADSTREAM_FILE_PRIMITIVES_H
#define HEADSTREAM_FILE_PRIMITIVES_H

#ifndef _WIN32
#include <errno.h>
#include <unistd.h>
#endif

/* Write bytes at a byte position of a file; return whether all bytes were written. */
static inline int hs_write_at(int descriptor, const unsigned char *p, long long size, long long position) {
#ifdef _WIN32
    return 0; /* not supported: the caller uses the general path */
#else
    ssize_t done;
    do done = pwrite(descriptor, p, (size_t)size, (off_t)position);
    while (done < 0 && errno == EINTR);
    return done == size;
#endif
}

#endif
