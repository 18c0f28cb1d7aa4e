"""The listener for Kafka clients, on the same log as the other transports.

listener.py connection.py   sockets; one client, from received bytes to responses
apis.py          the table of supported APIs: schema, versions, handler
protocol/        frames, schemas, reading and writing of fields
handlers/        produce, fetch, topics, settings, offsets
groups/          consumer groups whose members assign partitions themselves
"""
