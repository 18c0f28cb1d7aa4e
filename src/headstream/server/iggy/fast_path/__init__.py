"""The fast path: answers small requests between the socket and the log without a Python object per request.

    intake.py           one epoll for all idle connections: reads bytes, writes responses
    small_requests.py   frame -> cached topic -> append or cached messages -> response
    vsr_requests.py     like small_requests.py, for frames of Iggy's protocol 0.11
    traffic.py          request counts
    switch.py           HEADSTREAM_FAST_PATH=0 disables the fast path

The fast path uses two compiled classes of lower layers: PartitionEnd (log/partition/partition_end.py), which appends, and
ReadAhead (log/segments/read_ahead.py), which caches prefetched messages. The fast path is optional: requests that it does not
answer take the general path through broker/commands/requests.py.
"""
