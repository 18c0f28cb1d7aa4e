"""What a server does, without sockets: one file a noun.

    broker      Broker: the nouns together, over one log
    streams     create, get, list, delete
    topics      create, get, list, delete, purge
    partitions  create, delete
    messages    send, poll, wait, and their states
    offsets     commit, committed
    groups      join, leave, report, commit; list, get, seek, delete
    connection_groups   the groups that existing clients join by connections; members: which session ours came by
    membership  who has which partition of one group, sans-IO; assignment.py divides them, group_registry.py keeps them
    states      which ranges of stored bytes a poll delivers
    waits       a wait that holds no thread
    commands/   who answers which command of the protocol, for which session
    backing     the log, the clock and the randomness that the nouns share, and how they find things by name

The clock and the randomness enter here, as callables, and go down as arguments.
"""
