"""The producers and consumers of a client with interceptors or serializers.

interception   creates the producers and consumers, and receives the messages of Client.poll()
producer       on_send and on_acknowledged around Producer
consumer       on_receive, decoding and on_commit around Consumer
dead_letters   sends messages for which an interceptor failed to another topic

A client without interceptors uses Producer and Consumer directly, without overhead.
"""
