"""A server behind a client: the transport of headstream:// (TCP) and http(s)://.

address.py      URL -> where, who, and options           backoff.py    when to try again
connection.py   what a connection is                     tcp.py http.py    the two
caller.py       a pool of connections: which command goes over which, again where one broke
topology.py messages.py progress.py    the nouns of client/transport.py, each call a command of wire/
transport.py    all of them            server.py    users, tokens, clients, statistics: what only a server has
"""
