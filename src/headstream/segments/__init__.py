"""What lies on disk, read without locks by any process.

    layout     names of files, byte layouts of index and marker
    files      the reading half of the file interface: open, pread, list
    index      one segment's index: which bytes a send takes
    checking   whether a send is what was written
    segment    one segment: offsets -> byte ranges -> bytes
    follower   one partition: the committed messages of all its segments, while the writer goes on

What a reader needs to know is one thing: data is written before its index entry, so the last whole and valid
entry of the newest index is the end of what is committed. Nothing before it changes but the state byte of a
message; what lies behind it does not exist.
"""
