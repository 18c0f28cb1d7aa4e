"""The client library, over any transport.

transport      the protocol that the embedded broker and each network transport implement
client         Client: streams, topics, polls; makes producers and consumers
arguments      accepted forms of topics, start positions, states and committers
sending        messages -> batches: linger, size, partition; sans-IO, time is an argument
producer       Producer: the thread that sends the batches that sending.py reports as due
receiving      polled bytes -> messages, payload checksums verified
fetching       polled bytes -> messages one by one, and the offsets that can be committed; sans-IO
positions      offset of `first`, of `last` or of a time
membership     a consumer's membership of its group
consumer       Consumer: polls, waits and commits; fetching.py decides what
progress       the client's calls for committed offsets and groups
async_client   the same API for asyncio

send   Producer.send -> encode, check -> Sending.add | thread: Sending.take -> transport.messages.send -> acknowledge
poll   transport.messages.poll -> Fetching.feed -> decode -> Consumer -> loop body -> transport.offsets.commit
"""
