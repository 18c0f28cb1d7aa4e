"""The server's logic without sockets. A server calls it per command; an embedded client calls it directly.

    broker.py      Broker: all nouns over one log        backing.py   the log, clock and randomness that they share
    streams.py topics.py partitions.py
    accounts/      users, passwords, tokens, permissions, sessions
    messages/      send, poll, wait; offsets of consumers
    groups/        members of consumer groups and the partitions they own
    deliveries/    unfinished messages of groups: retries, leases, dead letters, pauses
    commands/      the handlers of the protocol's commands, in one table (table.py)

Interface: broker.Broker, commands.dispatch.Dispatcher, commands.requests, settings.ServerSettings. Imports log,
interceptors, core. Clock and randomness are injected here as callables and passed down as arguments. Read first:
broker.py, messages/messages.py, commands/table.py.
"""
