"""The interface between a client and a log, and the implementations over a network.

transport.py           streams, messages, offsets, groups: the operations of all transports
delivery_transport.py  additional commands of transports that track single messages
remote/                Iggy's protocol with Headstream's extensions, over TCP, QUIC and HTTP
kafka/                 Kafka, through librdkafka
"""
