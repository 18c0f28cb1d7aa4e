"""The interface between a client and the store of its messages, and its implementations over a network.

transport.py           streams, messages, offsets, groups: the operations of each transport
delivery_transport.py  further commands, of transports with deliveries of single messages
remote/                Iggy's protocol with Headstream's extensions, over TCP, QUIC and HTTP
kafka/                 Kafka, by librdkafka
"""
