"""Typed handlers: functions that are called for the messages of topics. A parameter's type determines its argument.

    app.py          App: registers handlers, runs them until it is stopped
    signature.py    the argument for each handler parameter; the decorator raises an error if there is none
    member.py       one member of a handler's group, which loops over a consumer

message -> consumer (decode, attempts, dead letter) -> Signature.arguments -> the function -> producer -> commit

Imports connect, client, serializers, core. Read first: app.py, signature.py, member.py.
"""
