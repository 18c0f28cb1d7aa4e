"""A client's transport to a Kafka cluster, based on confluent-kafka.

address.py       URL and settings                cluster.py    requests: topics, offsets, groups
topology.py      streams, topics, partitions     groups.py     groups and committed offsets, with the admin API
messages.py      sends and polls                 members.py    members of groups: Kafka consumers
sender.py        one Kafka producer              reader.py     one Kafka consumer with assigned partitions
records.py       messages <-> records            refusals.py   maps Kafka's errors
"""
