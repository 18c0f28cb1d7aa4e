"""A client's transport to a Kafka cluster, based on confluent-kafka.

address.py       URL and settings                cluster.py    requests: topics, offsets, groups
topology.py      streams, topics, partitions     groups.py     groups and committed offsets, by the admin API
messages.py      sends and polls                 members.py    members of groups, by consumers of Kafka
sender.py        one producer of Kafka           reader.py     one consumer of Kafka, by assigned partitions
records.py       messages <-> records            refusals.py   Kafka's errors as ours
"""
