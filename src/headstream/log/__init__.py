"""A log in a directory: one writer, readers in any process.

    segments/   the files; every process can read them without a lock
    system/ directory/ catalog/   operating system, writer's lock, streams and topics in SQLite
    partition/  append, recovery, consumer offsets, delivery journals
    staged/     commits of several batches at once: staged files -> manifest -> append
    upkeep/     background jobs: retention, compaction, removal, summaries
    checks/     verify, repair, backup
    log.py opening.py administration.py states.py   Log: a directory with all of the above

send -> Log.partition(topic, number).append(batch) -> core.codec.batch.stored.stamp -> data, then index entry -> acknowledged

Imports core and errors. Used by broker, by spark (segments, staging) and by connect. Read first: log.py,
partition/partition.py, segments/layout.py.
"""
