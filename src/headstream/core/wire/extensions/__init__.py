"""Headstream's own commands, with codes from 10000, for functions that Iggy's protocol does not have.

Over TCP these commands require a login with the context "headstream", over HTTP any login. The required permissions are as in
Iggy: the right to poll for fetch, wait and list, the right to send for append and stage, and the rights to topics and groups for
commands on topics and groups. Times are in microseconds if a name ends in _us, otherwise in milliseconds.
"""
