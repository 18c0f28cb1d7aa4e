"""What users hold: the client over any transport.

transport      the protocol that the embedded broker satisfies, and later each network transport
client         Client: streams, topics, polls; makes producers and consumers
arguments      what users may write for a topic, states, a committer
sending        messages -> batches: linger, size, partition; sans-IO, time is an argument
producer       Producer: the thread that sends what sending.py says is due
receiving      polled bytes -> messages, each payload checked against its checksum
fetching       polled bytes -> messages one by one, and what may be committed; sans-IO
places         the offset that `first`, `last` or a time stands for
membership     a consumer's part in its group
consumer       Consumer: polls, waits and commits as fetching.py says
progress       committed offsets and groups, as a client asks for them
async_client   the same names, awaited

send   Producer.send -> encode, check -> Sending.add | thread: Sending.take -> transport.messages.send -> acknowledge
poll   transport.messages.poll -> Fetching.feed -> decode -> Consumer -> body of the loop -> transport.offsets.commit
"""
