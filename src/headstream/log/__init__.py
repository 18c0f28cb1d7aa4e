"""The one writer of a directory.

files       the only open, write, sync, rename and truncate: a protocol, the operating system's, and memory's
lock        who the one writer is
partition   append and roll
recovery    what a crash can leave, and how it is repaired
offsets     consumer offsets, from any process
catalog     streams, topics and partitions in SQLite
log         Log: a directory with all of these

send -> Log.partition(topic, number).append(batch) -> codec.batch.stamp -> data, then index entry -> acknowledged
"""
