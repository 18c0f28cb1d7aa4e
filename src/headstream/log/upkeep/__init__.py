"""Background jobs of a log: they drop, rewrite and summarize closed segments.

upkeep.py          the loop that runs the jobs of a log; job.py has the common parts of the four jobs
retention.py       drops entire segments by age and size
compaction.py      which partitions are compacted, and when; compaction_pass.py compacts one partition
marked_removal.py  removes messages marked for deletion after their grace; removal_pass.py handles one partition
prefix_removal.py  DeleteRecords: removes the messages before an offset
segment_rewrite.py the rewrite of one segment that compaction and removal share
summaries.py       writes summaries of the headers of a closed segment
sweeping.py        removes files that a crashed process left
"""
