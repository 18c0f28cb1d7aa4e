"""Headstream's own commands, codes from 10000, for functions that Iggy's protocol lacks.

Over TCP they need a login with the context "headstream", over HTTP any login; each needs the permissions of its counterpart:
fetch, wait and list need the right to poll, append and stage the right to send, topics and groups the rights to topics and
groups. Times are in microseconds if a name ends in _us, else in milliseconds.
"""
