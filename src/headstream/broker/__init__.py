"""The server's logic without sockets: one file per noun.

    broker      Broker: all nouns over one log
    streams     create, get, list, delete
    topics      create, get, list, delete, purge
    partitions  create, delete
    messages    send, poll, wait, and their states
    offsets     commit, committed
    groups      join, leave, report, commit; list, get, seek, delete
    connection_groups   groups of existing clients, joined per connection; members: the sessions of our groups' members
    membership  partition owners of one group, sans-IO; assignment.py assigns, group_registry.py stores the groups
    states      which ranges of stored bytes a poll delivers
    waits       a wait that blocks no thread
    commands/   the handlers of the protocol's commands, per session
    backing     the log, clock and randomness that the nouns share, and lookup by name

Clock and randomness are injected here as callables and passed down as arguments.
"""
