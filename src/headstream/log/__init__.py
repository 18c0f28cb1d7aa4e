"""A directory with one writer.

files       open, write, sync, rename and truncate: a protocol, implemented by the operating system and by memory
lock        the one writer's lock
partition   append and roll
recovery    what a crash can leave, and how it is repaired
offsets     consumer offsets, from any process
catalog     streams, topics and partitions in SQLite
log         Log: a directory with all of these

send -> Log.partition(topic, number).append(batch) -> codec.batch.stamp -> data, then index entry -> acknowledged
"""
