"""Iggy's protocol 0.11 (servers from 0.9, SDK from 0.11): frames with a header of 256 bytes, called VSR in Iggy's clients.

    frames.py     headers of requests, replies and evictions         operations.py   operation <-> command code
    encoding.py   decodes commands and encodes replies               layouts.py      layouts that differ from the older protocol
    options.py    options of topics, streams and users               logins.py       the login, by password or token

Commands, handlers and statuses are as in the older protocol. Partitions are numbered from 0, but only in the encoded bytes.
"""
