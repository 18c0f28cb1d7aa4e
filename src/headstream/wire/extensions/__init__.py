"""Headstream's own commands, codes from 10000: what its clients need and the protocol they extend has no words for.

A server takes them from clients that logged in with the context "headstream", and over HTTP from everybody who may do
the same by the commands beside them: fetching, waiting and listing as polling, appending and staging as sending, topics
and groups as theirs. Times are in microseconds where a name ends in _us, else in milliseconds.
"""
