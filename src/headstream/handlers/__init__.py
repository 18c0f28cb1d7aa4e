"""Typed handlers: functions that are called with the messages of topics, their parameters filled by type.

    app.py          App: registers handlers, runs them until it is stopped
    signature.py    the value of each parameter of a handler; a signature that cannot be filled is an error of the decorator
    member.py       one member of a handler's group: a loop over a consumer

message -> consumer (decode, attempts, dead letter) -> Signature.arguments -> the function -> producer -> commit

Imports connect, client, serializers, core. Read first: app.py, signature.py, member.py.
"""
