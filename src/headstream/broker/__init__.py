"""The server's logic without sockets. A server calls the broker per command; an embedded client calls it directly.

    broker.py      Broker: all commands over one log     backing.py   the shared log, clock and randomness
    streams.py topics.py partitions.py
    accounts/      users, passwords, tokens, permissions, sessions
    messages/      send, poll, wait; consumer offsets
    groups/        members of consumer groups and their partitions
    deliveries/    unfinished messages of groups: retries, leases, dead letters, pauses
    commands/      handlers of the protocol commands, in one table (table.py)

Interface: broker.Broker, commands.dispatch.Dispatcher, commands.requests, settings.ServerSettings. Imports log,
interceptors, core. Clock and randomness are injected as callables and passed on as arguments. Read first: broker.py,
messages/messages.py, commands/table.py.
"""
