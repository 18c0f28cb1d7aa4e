"""Background jobs of a log, which drop, rewrite and summarize closed segments.

upkeep.py          runs the jobs of a log; job.py contains the common parts of the four jobs
retention.py       drops entire segments by age and size
compaction.py      decides which partitions are compacted and when; compaction_pass.py compacts one partition
marked_removal.py  removes messages marked for deletion after their grace; removal_pass.py handles one partition
prefix_removal.py  removes the messages before an offset (Kafka's DeleteRecords)
segment_rewrite.py rewrites one segment, for compaction and removal
summaries.py       writes header summaries of closed segments
sweeping.py        removes files that remain after a crash
"""
