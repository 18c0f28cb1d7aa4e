"""The files of a log, which every process can read without locks.

    layout     file names, byte layouts of index and marker
    files      the reading half of the file interface: open, pread, list
    index      one segment's index: the byte range of each send
    checking   compares sends with their checksums
    segment    one segment: offsets -> byte ranges -> bytes
    follower   one partition: the committed messages of all its segments, while the writer appends

Data is written before its index entry, so the last complete, valid entry of the newest index is the committed end. Of the data
before the committed end, only the messages' state bytes change; bytes after the committed end are ignored.
"""
