"""The client library, for every transport.

    client.py async_client.py   Client and AsyncClient, the results of hs.connect() and hs.connect_async()
    producer/       encode -> batch -> send, in the background, each message stored once
    consumer/       poll -> decode -> loop body -> commit; retrying/ and shared/ count attempts and lease messages
    dead_letters/   list, redrive, discard, erase
    admin/          streams, topics, offsets of groups, states; users and tokens of a server
    transports/     transport.py is the interface; remote/ (Iggy's protocol) and kafka/ implement it, the broker does too
    interception/   the points at which interceptors run

send   Producer.send -> encode, check -> Sending.add | thread: Sending.take -> transport.messages.send -> acknowledge
poll   transport.messages.poll -> Fetching.feed -> decode -> Consumer -> loop body -> transport.offsets.commit

Imports interceptors, serializers and core; imports neither log nor broker. Read first: client.py,
producer/producer.py, consumer/consumer.py.
"""
