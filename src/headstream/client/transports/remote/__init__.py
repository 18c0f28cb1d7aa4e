"""The remote transport of a client: headstream:// (TCP), http(s):// and quic://.

address.py      URL -> server, credentials, options       backoff.py    retry delays
connection.py   the interface of a connection             tcp.py http.py quic.py    the implementations of connection.py
caller.py       a pool of connections: selects a connection per command, retries when a connection breaks
topology.py messages.py progress.py    the commands of client/transports/transport.py; each call is a command of wire/
transport.py    combines all command groups            server.py    users, tokens, clients, statistics
"""
