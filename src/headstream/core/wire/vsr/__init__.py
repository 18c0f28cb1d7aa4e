"""Protocol 0.11 of Iggy (servers from 0.9, SDK from 0.11): frames with a header of 256 bytes, called VSR in its clients.

    frames.py     headers of requests, replies and evictions         operations.py   operation <-> command code
    encoding.py   commands and replies from and to their bytes       layouts.py      the layouts that differ from the old layouts
    options.py    options of topics, streams and users               logins.py       the login, by password or token

Commands, handlers and statuses are as in the older protocol. Partitions are numbered from 0 in these bytes only.
"""
